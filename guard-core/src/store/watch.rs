//! How a store tells that a slot changed.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::base::time::Budget;

/// Who can be told that a slot changed.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// Tells a waiting entry, or the holder of a lease, that its slot changed; given to
/// [`LeaseStore::watch`](crate::LeaseStore::watch).
#[derive(Clone)]
pub struct Subscriber(Weak<dyn Wake>);

impl Subscriber {
    pub(crate) fn new<W: Wake + 'static>(who: &Arc<W>) -> Self {
        let who: Weak<W> = Arc::downgrade(who);
        Self(who)
    }

    /// Makes whoever it is look at the slot. Cheap, and harmless at any time.
    pub fn wake(&self) {
        if let Some(who) = self.0.upgrade() {
            who.wake();
        }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").finish_non_exhaustive()
    }
}

/// An interest in a slot's changes; dropping it ends it.
pub trait Registration: Send {
    /// Whether changes are told at present. While they are not the guard looks at its retry interval. The
    /// store wakes the waiter when this turns.
    fn is_healthy(&self) -> bool {
        true
    }

    /// Does what the end of the registration takes at the store, within the budget, which may be what a failed
    /// look has left; what cannot be done in time is done later. The guard calls it before it drops a waiter's
    /// registration.
    fn end(&mut self, budget: Budget) {
        let _ = budget;
    }
}

/// A registration made by [`LeaseStore::watch`](crate::LeaseStore::watch); dropping it ends it.
pub struct Watch(Box<dyn Registration>);

impl Watch {
    /// Wraps a registration.
    #[must_use]
    pub fn new(registration: impl Registration + 'static) -> Self {
        Self(Box::new(registration))
    }

    /// Whether changes are told at present.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.is_healthy()
    }

    /// Ends it within the budget.
    pub fn end(mut self, budget: Budget) {
        self.0.end(budget);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
