//! What a guard, its entries and its leases share.

use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::base::clock::Clock;
use crate::base::error::{ConfigError, GuardError, StoreError};
use crate::base::slot::SlotName;
use crate::base::time::{Budget, after};
use crate::base::token::LeaseToken;
use crate::caller::config::{GuardConfig, Settings};
use crate::caller::observer::{GuardObserver, OutageEvent};
use crate::engine::callbacks::Callbacks;
use crate::engine::gate::Gates;
use crate::engine::keeper::Keeper;
use crate::engine::node_keeper::{Common, Doubt, THREAD_NAME};
use crate::engine::outage::Outages;
use crate::engine::shield::Shielded;
use crate::store::contract::{LeaseStore, NodeId};

/// The shared part of a guard. It lives as long as the guard or one of its leases does. On cache lines of its own:
/// each lease counts its handles, beside what all threads read.
#[repr(align(128))]
pub(crate) struct Engine<S: LeaseStore> {
    pub(crate) store: Arc<Shielded<S>>,
    /// The process that the guard was made in.
    process: u32,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) outages: Outages,
    pub(crate) keeper: Keeper,
    pub(crate) callbacks: Callbacks,
    pub(crate) observing: Callbacks,
}

impl<S: LeaseStore> Engine<S> {
    pub(crate) fn new(store: S, config: &GuardConfig) -> Result<Self, ConfigError> {
        let store = Arc::new(Shielded(store));
        let settings = Arc::new(config.settings(&store.capabilities())?);
        let gates = Arc::new(Gates::default());
        let clock = Arc::clone(&config.clock);
        let observing = Callbacks::of_observer();
        if settings.observer.is_some() {
            observing
                .start()
                .map_err(|source| ConfigError::thread(observing.thread_name(), source))?;
        }
        let keeper = Keeper::start(Common {
            store: Arc::clone(&store) as Arc<dyn LeaseStore>,
            clock: Arc::clone(&clock),
            settings: Arc::clone(&settings),
            gates: Arc::clone(&gates),
        })
        .map_err(|source| ConfigError::thread(THREAD_NAME, source))?;
        Ok(Self {
            store,
            process: process::id(),
            settings,
            clock,
            gates,
            outages: Outages::default(),
            keeper,
            callbacks: Callbacks::of_leases(),
            observing,
        })
    }

    /// Tells the guard's observer on its thread; the event is only made if there is one.
    pub(crate) fn tell<E: Send + 'static>(
        &self,
        event: impl FnOnce() -> E,
        tell: fn(&dyn GuardObserver, &E),
    ) {
        if let Some(observer) = &self.settings.observer {
            let (observer, event) = (Arc::clone(observer), event());
            self.observing
                .run(Box::new(move || tell(&*observer, &event)));
        }
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
        if self.settings.shared {
            LeaseToken::generate(&self.settings.owner)
        } else {
            LeaseToken::generate_within_process(&self.settings.owner)
        }
    }

    /// The budget of an operation that begins now.
    pub(crate) fn budget(&self) -> Budget {
        Budget::by(&*self.clock, self.settings.operation_timeout)
    }

    /// Frees `slot` of `token` in the background, for as long as the token might hold it.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken, doubt: Doubt) {
        let keeper = self.keeper.of(self.store.node(slot));
        keeper.release_later(slot, token, doubt);
    }

    /// Refuses what is asked of a [copy](Self::is_inherited) in a forked child.
    pub(crate) fn check_process(&self, slot: &SlotName) -> Result<(), GuardError> {
        if self.is_inherited() {
            return Err(GuardError::Forked {
                slot: slot.to_string(),
            });
        }
        Ok(())
    }

    /// Whether this is a copy that a forked child got, of a guard whose slots and connections are its parent's.
    /// It has none of the guard's threads, and a lock may be held by one of them for ever: so it must touch
    /// nothing of the guard. A store that no other process shares is the child's own copy.
    pub(crate) fn is_inherited(&self) -> bool {
        self.settings.shared && self.process != process::id()
    }
}

impl<S: LeaseStore> Drop for Engine<S> {
    /// Ends the guard's threads: waits for the releases under way at most the grace, and not at all on
    /// one of these threads. In a forked child they do not exist, and what the guard had open is its parent's: there
    /// it is left as it is.
    fn drop(&mut self) {
        if self.process != process::id() {
            std::mem::forget(Arc::clone(&self.store));
            return;
        }
        let deadline = after(Instant::now(), self.settings.shutdown_grace);
        let mut workers = self.keeper.stop(deadline);
        workers.extend(self.callbacks.stop());
        workers.extend(self.observing.stop());
        let here = thread::current().id();
        if workers.iter().any(|worker| worker.id() == here) {
            return;
        }
        let mut in_time = true;
        for worker in workers {
            in_time &= worker.finish_by(deadline);
        }
        if !in_time {
            self.store.cut_off();
        }
    }
}
