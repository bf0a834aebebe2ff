//! How a store tells that a slot changed.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::Acquired;
use crate::token::LeaseToken;
use crate::ttl::{Budget, LeaseTtl};
use crate::waiter::{Begun, Waiter};

/// Who can be told that a slot changed.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// Tells a waiting entry, or the holder of a lease, that its slot changed; given to
/// [`LeaseStore::watch`](crate::LeaseStore::watch).
#[derive(Clone)]
pub struct Waker(Who);

#[derive(Clone)]
enum Who {
    Entry(Weak<Waiter>, Arc<LookTerms>),
    Holder(Weak<dyn Wake>),
}

/// What a look on behalf of an entry needs to know of its guard.
pub(crate) struct LookTerms {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ttl: LeaseTtl,
    pub(crate) operation_timeout: Duration,
}

impl Waker {
    pub(crate) fn of_entry(waiter: &Arc<Waiter>, terms: Arc<LookTerms>) -> Self {
        Self(Who::Entry(Arc::downgrade(waiter), terms))
    }

    pub(crate) fn of_holder<W: Wake + 'static>(holder: &Arc<W>) -> Self {
        let holder: Weak<W> = Arc::downgrade(holder);
        Self(Who::Holder(holder))
    }

    /// Makes whoever it is look at the slot. Cheap, and harmless at any time.
    pub fn wake(&self) {
        match &self.0 {
            Who::Entry(waiter, _) => waiter.upgrade().inspect(|waiter| waiter.wake()).is_some(),
            Who::Holder(holder) => holder.upgrade().inspect(|holder| holder.wake()).is_some(),
        };
    }

    /// Begins a look at the slot on behalf of a waiting entry, in the calling thread: so the store works on it
    /// while the entry's thread wakes up to end it. Where nobody waits for one, `begin` is not called, and
    /// where it answers `None`, the entry looks for itself; then this is a [`wake`](Self::wake).
    ///
    /// `begin` and the look that it answers do together what
    /// [`LeaseStore::acquire`](crate::LeaseStore::acquire) does, with this token and within this budget. To
    /// be called with no lock held.
    pub fn look<F>(&self, begin: F)
    where
        F: FnOnce(&LeaseToken, LeaseTtl, Budget) -> Option<Look>,
    {
        let Who::Entry(waiter, terms) = &self.0 else {
            return self.wake();
        };
        let Some(waiter) = waiter.upgrade() else {
            return;
        };
        let Some(token) = waiter.invites_look(Instant::now()) else {
            return waiter.wake();
        };
        // The entry waits for this, whatever happens, a panic included.
        let mut beginning = Beginning {
            waiter: &waiter,
            begun: None,
        };
        let budget = Budget::by(&*terms.clock, terms.operation_timeout);
        let begun = |look| Begun { budget, look };
        beginning.begun = begin(&token, terms.ttl, budget).map(begun);
    }
}

/// A look that was begun; the entry that it is for ends it, in its own thread.
#[must_use = "a look that was begun has to be ended"]
pub struct Look(Box<dyn FnOnce() -> LookResult + Send>);

/// How a look ended; `None` if the entry should look again by itself, at once.
type LookResult = Option<Result<Acquired, StoreError>>;

impl Look {
    /// A look that `end` ends: it answers like [`LeaseStore::acquire`](crate::LeaseStore::acquire), or `None`
    /// if the entry should look by itself. What a command may still do that got no answer is then the
    /// store's to know: [`LeaseStore::in_doubt`](crate::LeaseStore::in_doubt).
    pub fn new(
        end: impl FnOnce() -> Option<Result<Acquired, StoreError>> + Send + 'static,
    ) -> Self {
        Self(Box::new(end))
    }

    pub(crate) fn end(self) -> LookResult {
        (self.0)()
    }
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").finish_non_exhaustive()
    }
}

struct Beginning<'a> {
    waiter: &'a Waiter,
    begun: Option<Begun>,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.waiter.began(self.begun.take());
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
