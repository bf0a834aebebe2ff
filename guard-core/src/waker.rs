//! How a store tells that a slot changed.

use std::fmt;
use std::sync::{Arc, Weak};

/// Who can be told that a slot changed.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// Tells a waiting entry, or the holder of a lease, that its slot changed; given to
/// [`LeaseStore::watch`](crate::LeaseStore::watch).
#[derive(Clone)]
pub struct Waker(Weak<dyn Wake>);

impl Waker {
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

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
