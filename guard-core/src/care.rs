//! What the keeper has to know of a lease to look after it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::backoff::Backoff;
use crate::error::StoreError;
use crate::lane::Lane;
use crate::store::Watch;
use crate::ttl::after;
use crate::wards::Ward;

/// The keeper's care for a lease.
pub(crate) struct Care {
    /// Protects whether and how the lease is looked after. Under it only the keeper's agenda is locked.
    state: Mutex<State>,
}

struct State {
    enrolment: Enrolment,
    /// Whether the slot was changed by somebody, and should be looked at.
    look: bool,
    /// Whether that is because the last look brought no answer. Then it has time, unless a further change is told.
    looks_again: bool,
    /// When the next renewal is due, by the guard's clock.
    renewal: Instant,
    backoff: Backoff,
    /// Whether the slot's watch was asked for.
    watched: bool,
    watch: Option<Watch>,
}

enum Enrolment {
    None,
    /// In the keeper's care: in this lane, under this number.
    In(Arc<Lane>, u64),
    /// The lease is closed.
    Ended,
}

impl Care {
    pub(crate) fn new(renewal: Instant) -> Self {
        Self {
            state: Mutex::new(State {
                enrolment: Enrolment::None,
                look: false,
                looks_again: false,
                renewal,
                backoff: Backoff::default(),
                watched: false,
                watch: None,
            }),
        }
    }

    /// Enrols the lease, unless it is or has ended.
    pub(crate) fn enrol(
        &self,
        lane: impl FnOnce() -> Arc<Lane>,
        lease: Weak<dyn Ward>,
        due: Instant,
    ) {
        let lane = lane();
        let mut state = self.state.lock();
        if matches!(state.enrolment, Enrolment::None) {
            let number = lane.enrol(lease, due);
            state.enrolment = Enrolment::In(lane, number);
        }
    }

    /// Ends the care. Answers the watch: it is the store's, and so to be dropped where that harms nobody.
    pub(crate) fn end(&self) -> Option<Watch> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.enrolment, Enrolment::Ended);
        let watch = state.watch.take();
        drop(state);
        if let Enrolment::In(lane, number) = before {
            lane.dismiss(number);
        }
        watch
    }

    /// Notes that the slot was changed, and makes the keeper look soon.
    pub(crate) fn want_look(&self) {
        let mut state = self.state.lock();
        if state.look && !std::mem::take(&mut state.looks_again) {
            return;
        }
        if let Enrolment::In(lane, number) = &state.enrolment {
            let (lane, number) = (Arc::clone(lane), *number);
            state.look = true;
            drop(state);
            lane.expedite(number);
        }
    }

    /// Whether the slot should be looked at; asked once for each look.
    pub(crate) fn take_look(&self) -> bool {
        let mut state = self.state.lock();
        state.looks_again = false;
        std::mem::take(&mut state.look)
    }

    /// Plans one more look after one that brought no answer; answers when.
    pub(crate) fn look_failed(&self, now: Instant, error: &StoreError) -> Instant {
        let mut state = self.state.lock();
        state.look = true;
        state.looks_again = true;
        after(now, state.backoff.after(error))
    }

    /// Notes that a look was answered.
    pub(crate) fn looked(&self) {
        self.state.lock().backoff = Backoff::default();
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
    pub(crate) fn renewal_failed(
        &self,
        now: Instant,
        error: &StoreError,
        longest: Duration,
    ) -> Instant {
        let mut state = self.state.lock();
        let pause = state.backoff.after(error).min(longest);
        state.renewal = after(now, pause);
        state.renewal
    }
}
