//! What the keeper has to know of a lease to look after it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::backoff::Backoff;
use crate::store::Watch;
use crate::ttl::after;

/// The keeper's care for a lease.
pub(crate) struct Care {
    /// Protects whether and how the lease is looked after. Under it only the keeper's agenda is locked.
    state: Mutex<State>,
}

struct State {
    enrolment: Enrolment,
    /// Whether the slot was changed by somebody, and should be looked at.
    look: bool,
    /// When the next renewal is due, by the guard's clock.
    renewal: Instant,
    backoff: Backoff,
    /// Whether the slot's watch was asked for.
    watched: bool,
    watch: Option<Watch>,
}

enum Enrolment {
    None,
    /// In the keeper's care, under this number.
    In(u64),
    /// The lease is closed.
    Ended,
}

impl Care {
    pub(crate) fn new(renewal: Instant) -> Self {
        Self {
            state: Mutex::new(State {
                enrolment: Enrolment::None,
                look: false,
                renewal,
                backoff: Backoff::default(),
                watched: false,
                watch: None,
            }),
        }
    }

    /// Enrols the lease, unless it is or has ended.
    pub(crate) fn enrol(&self, enrol: impl FnOnce() -> u64) {
        let mut state = self.state.lock();
        if matches!(state.enrolment, Enrolment::None) {
            state.enrolment = Enrolment::In(enrol());
        }
    }

    /// Ends the care; answers the number under which the keeper has it, if it does.
    pub(crate) fn end(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.enrolment, Enrolment::Ended);
        let watch = state.watch.take();
        drop(state);
        // The store's: dropped with the lock free.
        drop(watch);
        match before {
            Enrolment::In(number) => Some(number),
            Enrolment::None | Enrolment::Ended => None,
        }
    }

    /// Notes that the slot was changed; answers the lease's number if the keeper should hurry.
    pub(crate) fn want_look(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let Enrolment::In(number) = state.enrolment else {
            return None;
        };
        let wanted = std::mem::replace(&mut state.look, true);
        (!wanted).then_some(number)
    }

    /// Whether the slot should be looked at; asked once for each look.
    pub(crate) fn take_look(&self) -> bool {
        std::mem::take(&mut self.state.lock().look)
    }

    /// Whether the slot's watch has to be asked for, which is done once.
    pub(crate) fn takes_up_watch(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().watched, true)
    }

    /// Keeps a watch until the lease is closed.
    pub(crate) fn keep(&self, watch: Option<Watch>) {
        let mut state = self.state.lock();
        if !matches!(state.enrolment, Enrolment::Ended) {
            state.watch = watch;
        }
    }

    /// When the next renewal is due.
    pub(crate) fn renewal(&self) -> Instant {
        self.state.lock().renewal
    }

    /// Plans the renewal after one that succeeded.
    pub(crate) fn renewed(&self, next: Instant) -> Instant {
        let mut state = self.state.lock();
        state.backoff = Backoff::default();
        state.renewal = next;
        next
    }

    /// Plans the renewal after one that failed at `now`, at most `longest` later.
    pub(crate) fn renewal_failed(&self, now: Instant, longest: Duration) -> Instant {
        let mut state = self.state.lock();
        let pause = state.backoff.next_pause().min(longest);
        state.renewal = after(now, pause);
        state.renewal
    }
}
