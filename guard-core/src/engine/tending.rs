//! What the keeper has to know of a lease to look after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::error::StoreError;
use crate::base::time::after;
use crate::engine::backoff::Backoff;
use crate::engine::node_keeper::NodeKeeper;
use crate::store::watch::Watch;

/// How a lease is looked after.
pub(crate) struct Tending {
    keeper: Arc<NodeKeeper>,
    /// By which number the keeper knows the lease.
    number: u64,
    look: Look,
    /// When the next renewal is due, by the guard's clock.
    renewal: Instant,
    backoff: Backoff,
    /// Whether the slot's watch was asked for, which is done once.
    watch_asked: bool,
    _watch: Option<Watch>,
}

/// Whether the slot is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    No,
    /// Somebody changed it.
    Wanted,
    /// The last look brought no answer. The next one has time, unless a further change is told.
    Again,
}

impl Tending {
    pub(crate) fn new(keeper: Arc<NodeKeeper>, number: u64, renewal: Instant) -> Self {
        Self {
            keeper,
            number,
            look: Look::No,
            renewal,
            backoff: Backoff::default(),
            watch_asked: false,
            _watch: None,
        }
    }

    /// Lets the keeper forget the lease.
    pub(crate) fn end(&self) {
        self.keeper.dismiss(self.number);
    }

    /// Notes that the slot was changed; answers whom to tell, if that is news.
    pub(crate) fn want_look(&mut self) -> Option<(Arc<NodeKeeper>, u64)> {
        if self.look == Look::Wanted {
            return None;
        }
        self.look = Look::Wanted;
        Some((Arc::clone(&self.keeper), self.number))
    }

    /// Whether the slot should be looked at; asked once for each look.
    pub(crate) fn take_look(&mut self) -> bool {
        std::mem::replace(&mut self.look, Look::No) != Look::No
    }

    /// Notes a look that was answered.
    pub(crate) fn looked(&mut self) {
        self.backoff = Backoff::default();
    }

    /// Plans one more look after one at `now` that brought no answer; answers when.
    pub(crate) fn look_failed(&mut self, now: Instant, error: &StoreError) -> Instant {
        // A change that was told meanwhile is not forgotten.
        if self.look == Look::No {
            self.look = Look::Again;
        }
        after(now, self.backoff.after(error))
    }

    /// Whether the slot's watch has to be asked for.
    pub(crate) fn takes_up_watch(&mut self) -> bool {
        !std::mem::replace(&mut self.watch_asked, true)
    }

    /// Keeps a watch for as long as the lease is looked after.
    pub(crate) fn keep(&mut self, watch: Option<Watch>) {
        self._watch = watch;
    }

    /// When the next renewal is due.
    pub(crate) const fn renewal(&self) -> Instant {
        self.renewal
    }

    /// Plans the renewal after one that succeeded.
    pub(crate) fn renewed(&mut self, next: Instant) {
        self.backoff = Backoff::default();
        self.renewal = next;
    }

    /// Plans the renewal after one that failed at `now`, at most `longest` later; answers when.
    pub(crate) fn renewal_failed(
        &mut self,
        now: Instant,
        error: &StoreError,
        longest: Duration,
    ) -> Instant {
        let pause = self.backoff.after(error).min(longest);
        self.renewal = after(now, pause);
        self.renewal
    }
}
