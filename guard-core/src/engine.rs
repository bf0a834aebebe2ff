//! What a guard, its entries and its leases share.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::callbacks::Callbacks;
use crate::clock::Clock;
use crate::config::{GuardConfig, Settings};
use crate::error::ConfigError;
use crate::gate::Gates;
use crate::keeper::Keeper;
use crate::outage::Outages;
use crate::slot::SlotName;
use crate::store::LeaseStore;
use crate::token::LeaseToken;
use crate::ttl::after;

/// The shared part of a guard. It lives as long as the guard or one of its leases does.
pub(crate) struct Engine<S: LeaseStore> {
    pub(crate) store: Arc<S>,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gates: Gates,
    pub(crate) outages: Outages,
    pub(crate) keeper: Keeper,
    pub(crate) callbacks: Callbacks,
}

impl<S: LeaseStore> Engine<S> {
    pub(crate) fn new(store: S, config: &GuardConfig) -> Result<Self, ConfigError> {
        let settings = config.settings(&store.capabilities())?;
        let store = Arc::new(store);
        let clock = Arc::clone(&config.clock);
        let keeper = Keeper::start(
            Arc::clone(&store) as Arc<dyn LeaseStore>,
            Arc::clone(&clock),
            settings.operation_timeout,
        )
        .map_err(|source| ConfigError::Thread {
            name: Keeper::THREAD_NAME.to_owned(),
            source: Arc::new(source),
        })?;
        Ok(Self {
            store,
            settings,
            clock,
            gates: Gates::default(),
            outages: Outages::default(),
            keeper,
            callbacks: Callbacks::default(),
        })
    }

    pub(crate) fn new_token(&self) -> LeaseToken {
        LeaseToken::generate(&self.settings.owner)
    }

    /// Frees `slot` of `token` in the background, for as long as the token might hold it.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken) {
        self.keeper
            .release_later(slot, token, self.settings.ttl.get());
    }
}

impl<S: LeaseStore> Drop for Engine<S> {
    /// Ends the guard's threads: waits for the releases under way at most the grace, and not at all on
    /// one of these threads.
    fn drop(&mut self) {
        let deadline = after(Instant::now(), self.settings.shutdown_grace);
        let workers = [self.keeper.stop(deadline), self.callbacks.stop()];
        let here = thread::current().id();
        if workers.iter().flatten().any(|worker| worker.id() == here) {
            return;
        }
        for worker in workers.into_iter().flatten() {
            worker.finish_by(deadline);
        }
    }
}
