//! One entry under way: where its thread parks, and where its outcome is decided, once.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::error::StoreError;

/// How an entry ended. The first verdict stands.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// The store granted the slot.
    Granted,
    /// An interrupt that the entry observes came.
    Interrupted,
    /// The caller's patience ended.
    TimedOut,
    /// The guard was closed.
    Closed,
    /// The store failed.
    Failed(StoreError),
}

#[derive(Debug, Default)]
struct State {
    verdict: Option<Verdict>,
    front: bool,
    woken: bool,
}

/// One entry under way.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    /// Protects the entry's outcome, its place and its wake-up. A leaf: no other lock is taken under it,
    /// so that gates and interrupts may decide an entry while they hold their own.
    state: Mutex<State>,
    changed: Condvar,
}

impl Waiter {
    /// Decides the entry unless it is decided. Answers whether `verdict` stands.
    pub(crate) fn decide(&self, verdict: Verdict) -> bool {
        let mut state = self.state.lock();
        if state.verdict.is_some() {
            return false;
        }
        state.verdict = Some(verdict);
        self.changed.notify_one();
        true
    }

    /// Ends the entry with `verdict`, or with the one that came first.
    pub(crate) fn conclude(&self, verdict: Verdict) -> Verdict {
        self.state.lock().verdict.get_or_insert(verdict).clone()
    }

    /// The verdict, once there is one.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.state.lock().verdict.clone()
    }

    /// Tells the entry that it is the first in its gate.
    pub(crate) fn move_to_front(&self) {
        let mut state = self.state.lock();
        state.front = true;
        self.changed.notify_one();
    }

    /// Ends the current pause of the entry, or its next one if it is not pausing.
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        self.changed.notify_one();
    }

    /// Waits for the front of the gate, a verdict or `deadline`. Answers whether the front was reached
    /// without a verdict.
    pub(crate) fn wait_for_front(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while !state.front && state.verdict.is_none() {
            if self.sleep(&mut state, deadline) {
                break;
            }
        }
        state.front && state.verdict.is_none()
    }

    /// Waits for a wake-up, a verdict or `deadline`; takes the wake-up.
    pub(crate) fn pause(&self, deadline: Option<Instant>) {
        let mut state = self.state.lock();
        while !state.woken && state.verdict.is_none() {
            if self.sleep(&mut state, deadline) {
                break;
            }
        }
        state.woken = false;
    }

    /// Waits for a verdict or `until`, whatever wakes in between.
    pub(crate) fn rest(&self, until: Instant) {
        let mut state = self.state.lock();
        while state.verdict.is_none() {
            if self.sleep(&mut state, Some(until)) {
                break;
            }
        }
    }

    /// Answers whether `deadline` has passed.
    fn sleep(
        &self,
        state: &mut parking_lot::MutexGuard<'_, State>,
        deadline: Option<Instant>,
    ) -> bool {
        match deadline {
            Some(deadline) => self.changed.wait_until(state, deadline).timed_out(),
            None => {
                self.changed.wait(state);
                false
            }
        }
    }
}

/// Wakes one waiting entry; given to [`LeaseStore::watch`](crate::LeaseStore::watch).
#[derive(Clone)]
pub struct Waker(Weak<Waiter>);

impl Waker {
    pub(crate) fn new(waiter: &Arc<Waiter>) -> Self {
        Self(Arc::downgrade(waiter))
    }

    /// Makes the entry look at its slot. Cheap, and harmless at any time.
    pub fn wake(&self) {
        if let Some(waiter) = self.0.upgrade() {
            waiter.wake();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
