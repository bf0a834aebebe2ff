//! What a guard, its entries and its leases share.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::callbacks::Callbacks;
use crate::clock::Clock;
use crate::config::{GuardConfig, Settings};
use crate::error::{ConfigError, StoreError};
use crate::gate::Gates;
use crate::keeper::{Doubt, Keeper};
use crate::observer::{GuardObserver, OutageEvent};
use crate::outage::Outages;
use crate::slot::SlotName;
use crate::store::{LeaseStore, NodeId};
use crate::token::LeaseToken;
use crate::ttl::after;
use crate::waker::LookTerms;

/// The shared part of a guard. It lives as long as the guard or one of its leases does. On cache lines of its own:
/// each lease counts its handles, beside what all threads read.
#[repr(align(128))]
pub(crate) struct Engine<S: LeaseStore> {
    pub(crate) store: Arc<S>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) look_terms: Arc<LookTerms>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) outages: Outages,
    pub(crate) keeper: Keeper,
    pub(crate) callbacks: Callbacks,
}

impl<S: LeaseStore> Engine<S> {
    pub(crate) fn new(store: S, config: &GuardConfig) -> Result<Self, ConfigError> {
        let settings = Arc::new(config.settings(&store.capabilities())?);
        let gates = Arc::new(Gates::default());
        let store = Arc::new(store);
        let clock = Arc::clone(&config.clock);
        let callbacks = Callbacks::default();
        if settings.observer.0.is_some() {
            callbacks
                .start()
                .map_err(|source| ConfigError::thread(Callbacks::THREAD_NAME, source))?;
        }
        let keeper = Keeper::start(
            Arc::clone(&store) as Arc<dyn LeaseStore>,
            Arc::clone(&clock),
            Arc::clone(&settings),
            Arc::clone(&gates),
        )
        .map_err(|source| ConfigError::thread(Keeper::THREAD_NAME, source))?;
        let look_terms = Arc::new(LookTerms {
            clock: Arc::clone(&clock),
            ttl: settings.ttl,
            operation_timeout: settings.operation_timeout,
        });
        Ok(Self {
            store,
            settings,
            clock,
            look_terms,
            gates,
            outages: Outages::default(),
            keeper,
            callbacks,
        })
    }

    /// Tells the guard's observer, if there is one.
    pub(crate) fn tell<E: Send + 'static>(
        &self,
        event: impl FnOnce() -> E,
        tell: fn(&dyn GuardObserver, &E),
    ) {
        self.settings.observer.tell(&self.callbacks, event, tell);
    }

    /// Notes that a node of the store has answered: its outage is over, if there was one.
    pub(crate) fn answered(&self, node: NodeId) {
        if let Some(lasted) = self.outages.answered(node) {
            log::info!(target: crate::LOG_TARGET, "the store answers again after {lasted:?}");
            let event = || OutageEvent { lasted, over: true };
            self.tell(event, |observer, event| observer.on_outage(event));
        }
    }

    /// Notes an answer, if the operation got one.
    pub(crate) fn heard<T>(&self, node: NodeId, answer: &Result<T, StoreError>) {
        if answer.is_ok() {
            self.answered(node);
        }
    }

    pub(crate) fn new_token(&self) -> LeaseToken {
        LeaseToken::generate(&self.settings.owner)
    }

    /// Frees `slot` of `token` in the background, for as long as the token might hold it.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken, doubt: Doubt) {
        self.keeper.release_later(slot, token, doubt);
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
