//! One entry under way: where its thread parks, and where its outcome is decided, once.

use std::time::Instant;

use crate::base::error::StoreError;
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::base::token::{FencingToken, LeaseToken};
use crate::caller::interrupt::Interruptible;
use crate::engine::turns::Turn;
use crate::store::watch::Wake;

/// How an entry ended. The first verdict stands.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// The slot is the entry's.
    Granted(Grant),
    /// An interrupt that the entry observes came.
    Interrupted,
    /// The caller's patience ended.
    TimedOut,
    /// The guard was closed.
    Closed,
    /// The store failed.
    Failed(StoreError),
}

/// What a lease is made of.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) token: LeaseToken,
    pub(crate) fencing: Option<FencingToken>,
    /// When it was asked for, and when it came, by the guard's clock.
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
    /// Until when the lease may be relied on.
    pub(crate) deadline: Instant,
    pub(crate) turn: Turn,
}

/// What became of a grant that was handed to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The entry has its lease by this.
    Taken,
    /// The entry found out by itself that its token holds the slot.
    Already,
    /// The entry ended otherwise, or goes by another token now: the grant is nobody's.
    Refused,
}

#[derive(Debug)]
struct State {
    token: LeaseToken,
    verdict: Option<Verdict>,
    front: bool,
    /// Whether the entry came to the front because the one before it entered: the slot is held by a lease
    /// of this process, which will hand it over.
    expects_hand_over: bool,
    /// Whether a command of the token may still take effect.
    doubt: bool,
    /// Whether the token was ended by force: no lease is to be made by it.
    revoked: bool,
    woken: bool,
    /// When to wake at the latest, if nothing else does.
    wake_by: Option<Instant>,
}

/// One entry under way.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Protects the entry's outcome, its token, its place and its wake-up. A leaf: no other lock is taken
    /// under it, so that gates and interrupts may decide an entry while they hold their own.
    state: Mutex<State>,
    changed: Condvar,
}

impl Waiter {
    pub(crate) fn new(token: LeaseToken) -> Self {
        Self {
            state: Mutex::new(State {
                token,
                verdict: None,
                front: false,
                expects_hand_over: false,
                doubt: false,
                revoked: false,
                woken: false,
                wake_by: None,
            }),
            changed: Condvar::new(),
        }
    }

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

    /// The entry's token, as long as the entry is undecided.
    pub(crate) fn undecided_token(&self) -> Option<LeaseToken> {
        let state = self.state.lock();
        state.verdict.is_none().then(|| state.token.clone())
    }

    /// The entry's token.
    pub(crate) fn token(&self) -> LeaseToken {
        self.state.lock().token.clone()
    }

    /// Lets the undecided entry go on with another token, of which nothing is under way. Answers whether
    /// it does.
    pub(crate) fn replace_token(&self, token: LeaseToken) -> bool {
        let mut state = self.state.lock();
        if state.verdict.is_some() {
            return false;
        }
        state.token = token;
        state.doubt = false;
        state.revoked = false;
        true
    }

    /// Notes that `token` was ended by force, if the entry goes by it, and makes the entry look.
    pub(crate) fn revoke(&self, token: &LeaseToken) {
        let mut state = self.state.lock();
        if state.token == *token {
            state.revoked = true;
            state.woken = true;
            self.changed.notify_one();
        }
    }

    /// Whether the entry's token was ended by force.
    pub(crate) fn is_revoked(&self) -> bool {
        self.state.lock().revoked
    }

    /// Hands the entry a grant of its token.
    pub(crate) fn receive(&self, grant: Grant) -> Received {
        let mut state = self.state.lock();
        match &state.verdict {
            None if state.token == grant.token && !state.revoked => {
                state.verdict = Some(Verdict::Granted(grant));
                self.changed.notify_one();
                Received::Taken
            }
            Some(Verdict::Granted(own)) if own.token == grant.token => Received::Already,
            _ => Received::Refused,
        }
    }

    /// Notes that a command of the entry itself may still take effect.
    pub(crate) fn doubt(&self) {
        self.state.lock().doubt = true;
    }

    /// Notes that a command of `token` may still take effect, and makes the entry look. Answers whether the
    /// entry takes care of it: it is undecided and goes by that token, or has its lease by it.
    pub(crate) fn put_in_doubt(&self, token: &LeaseToken) -> bool {
        let mut state = self.state.lock();
        match &state.verdict {
            // It found out by itself that its token holds the slot: its lease takes care.
            Some(Verdict::Granted(own)) if own.token == *token => return true,
            None if state.token == *token => {}
            _ => return false,
        }
        state.doubt = true;
        state.woken = true;
        self.changed.notify_one();
        true
    }

    /// Whether a command of the entry's token may still take effect.
    pub(crate) fn in_doubt(&self) -> bool {
        self.state.lock().doubt
    }

    /// Tells the entry that it is the first in its gate.
    pub(crate) fn move_to_front(&self, expects_hand_over: bool) {
        let mut state = self.state.lock();
        state.front = true;
        state.expects_hand_over = expects_hand_over;
        self.changed.notify_one();
    }

    /// Whether the entry is the first in its gate.
    pub(crate) fn is_in_front(&self) -> bool {
        self.state.lock().front
    }

    /// Whether a lease of this process holds the slot and will hand it over.
    pub(crate) fn expects_hand_over(&self) -> bool {
        self.state.lock().expects_hand_over
    }

    /// Ends the current or next pause of the entry at `moment` at the latest.
    pub(crate) fn wake_by(&self, moment: Instant) {
        let mut state = self.state.lock();
        state.wake_by = Some(moment);
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

    /// Waits for a wake-up, a verdict or `deadline`. Answers whether a wake-up came, and takes it.
    pub(crate) fn pause(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.woken && state.verdict.is_none() {
            let wake_by = state
                .wake_by
                .map_or(deadline, |moment| moment.min(deadline));
            if self.sleep(&mut state, Some(wake_by)) {
                break;
            }
        }
        state.wake_by = None;
        std::mem::take(&mut state.woken)
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
    fn sleep(&self, state: &mut MutexGuard<'_, State>, deadline: Option<Instant>) -> bool {
        match deadline {
            Some(deadline) => self.changed.wait_until(state, deadline).timed_out(),
            None => {
                self.changed.wait(state);
                false
            }
        }
    }
}

impl Interruptible for Waiter {
    fn interrupt(&self) -> bool {
        self.decide(Verdict::Interrupted)
    }
}

impl Wake for Waiter {
    /// Ends the current pause of the entry, or its next one if it is not pausing.
    fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        self.changed.notify_one();
    }
}
