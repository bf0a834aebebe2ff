//! A lease of a slot in a store, and its life: held, perhaps lost, closed.
//!
//! How a loss is found: by the deadline, whenever somebody asks; else by what the keeper sees, in [`tended`]. What becomes
//! of the slot at the end is told in [`closing`].

mod closing;
mod tended;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::error::GuardError;
use crate::base::panics::{Callback, discard};
use crate::base::slot::SlotName;
use crate::base::sync::Mutex;
use crate::base::time::Budget;
use crate::base::token::{FencingToken, LeaseToken};
use crate::caller::lease::{CloseOutcome, LeaseBody};
use crate::caller::observer::{CloseEvent, LostEvent};
use crate::engine::node_keeper::Doubt;
use crate::engine::shared::Engine;
use crate::engine::tending::Tending;
use crate::engine::turns::Turn;
use crate::engine::waiter::Grant;
use crate::store::contract::{LeaseStore, NodeId, Renewed};

/// Where a lease is in its life. It moves forward only: held, perhaps lost, closed.
enum Phase {
    /// The slot is ours until the local deadline, unless a renewal moves it, and as long as the store was
    /// `heard` of not too long ago: the time at which the last command that was answered was sent.
    Held { deadline: Instant, heard: Instant },
    /// The slot may be somebody else's.
    Lost { at: Instant },
    /// The slot was given back, or is being given back; `reported` if the lease was lost before.
    Closed { at: Instant, reported: bool },
}

struct State {
    phase: Phase,
    /// To be called when the lease is lost; empty in every other phase.
    on_lost: Vec<Callback>,
    /// How the keeper looks after the lease, if it does; `None` once it is closed.
    tending: Option<Box<Tending>>,
}

/// A lease that a store granted.
pub(crate) struct HeldLease<S: LeaseStore> {
    engine: Arc<Engine<S>>,
    slot: SlotName,
    node: NodeId,
    token: LeaseToken,
    fencing: Option<FencingToken>,
    turn: Turn,
    entered: Instant,
    /// Protects the lease's phase, its callbacks and how it is looked after. Whoever changes the phase acts on it: closing, the loss's
    /// log line and callbacks each happen once. Under it only the keeper's schedule is locked.
    state: Mutex<State>,
}

impl<S: LeaseStore> HeldLease<S> {
    /// Makes a lease of a grant. If the guard renews or somebody wants to hear of a loss, the keeper takes it
    /// into care; where the store does not expire slots, always.
    pub(crate) fn start(
        engine: &Arc<Engine<S>>,
        slot: SlotName,
        node: NodeId,
        grant: Grant,
    ) -> Arc<Self> {
        let entered = grant.at;
        let lease = Arc::new(Self {
            engine: Arc::clone(engine),
            slot,
            node,
            token: grant.token,
            fencing: grant.fencing,
            turn: grant.turn,
            entered,
            state: Mutex::new(State {
                phase: Phase::Held {
                    deadline: grant.deadline,
                    heard: grant.sent,
                },
                on_lost: Vec::new(),
                tending: None,
            }),
        });
        let settings = &engine.settings;
        if settings.auto_renew || settings.observer.is_some() || !settings.expires {
            lease.enrol(lease.first_due());
        }
        lease
    }

    /// The local deadline if the lease is held; an expiry is noticed here.
    fn deadline(&self) -> Option<Instant> {
        if self.engine.is_inherited() {
            return None;
        }
        let now = self.engine.clock.now();
        let silence = self.engine.settings.silence;
        let (why, callbacks) = {
            let mut state = self.state.lock();
            match state.phase {
                Phase::Held { deadline, .. } if deadline <= now => ("it expired", state.lose(now)),
                Phase::Held { heard, .. } if silence <= now.saturating_duration_since(heard) => (
                    "the store has not been heard of for too long",
                    state.lose(now),
                ),
                Phase::Held { deadline, .. } => return Some(deadline),
                Phase::Lost { .. } | Phase::Closed { .. } => return None,
            }
        };
        self.report_loss(why, callbacks);
        None
    }

    /// Moves the deadline after a renewal. Answers whether the lease is held.
    fn prolong(&self, renewal: Budget) -> bool {
        self.confirm(renewal.sent(), self.engine.settings.ttl.deadline(renewal))
    }

    /// Notes that the store has confirmed the lease, and moves the deadline to `until` if that is later. Answers
    /// whether the lease is held.
    fn confirm(&self, sent: Instant, until: Instant) -> bool {
        // An expiry before the answer came has been noticed: a lost lease is never held again.
        if self.deadline().is_none() {
            return false;
        }
        let mut state = self.state.lock();
        if let Phase::Held { deadline, heard } = &mut state.phase {
            *deadline = until.max(*deadline);
            *heard = sent.max(*heard);
            return true;
        }
        false
    }

    fn lose(&self, why: &'static str) {
        let now = self.engine.clock.now();
        let callbacks = {
            let mut state = self.state.lock();
            if !matches!(state.phase, Phase::Held { .. }) {
                return;
            }
            state.lose(now)
        };
        self.report_loss(why, callbacks);
    }

    /// What it means that the store does not renew the lease.
    fn not_its_own(&self) -> &'static str {
        if self.engine.settings.expires {
            "a renewal found another token in its slot, or none"
        } else {
            "the session that held its slot has ended"
        }
    }

    fn report_loss(&self, why: &'static str, callbacks: Vec<Callback>) {
        log::warn!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?}: the lease {:?} is lost after {:?} (TTL {:?}): {why}",
            self.slot, self.token, self.held_for(), self.engine.settings.ttl.get()
        );
        if !self.engine.settings.expires {
            // Nobody else would free the slot of a holder that does not close.
            self.engine
                .release_later(&self.slot, self.token.clone(), Doubt::None);
        }
        for callback in callbacks {
            self.engine.callbacks.run(callback);
        }
        let event = || LostEvent {
            slot: self.slot.clone(),
            held_for: self.held_for(),
            reason: why,
        };
        self.engine
            .tell(event, |observer, event| observer.on_lost(event));
    }

    fn not_held(&self) -> GuardError {
        GuardError::NotHeld {
            slot: self.slot.to_string(),
        }
    }
}

impl State {
    /// Turns a held lease into a lost one; answers whom to call.
    fn lose(&mut self, now: Instant) -> Vec<Callback> {
        self.phase = Phase::Lost { at: now };
        std::mem::take(&mut self.on_lost)
    }
}

impl<S: LeaseStore> LeaseBody for HeldLease<S> {
    fn close(&self) -> CloseOutcome {
        if self.engine.is_inherited() {
            return CloseOutcome::AlreadyGone;
        }
        // Most leases are closed and then dropped: that costs no look at the clock.
        if matches!(self.state.lock().phase, Phase::Closed { .. }) {
            return CloseOutcome::AlreadyClosed;
        }
        let budget = self.engine.budget();
        let (callbacks, tending) = {
            let mut state = self.state.lock();
            let lost = match state.phase {
                Phase::Closed { .. } => return CloseOutcome::AlreadyClosed,
                Phase::Held { .. } => None,
                Phase::Lost { at } => Some(at),
            };
            state.phase = Phase::Closed {
                at: lost.unwrap_or(budget.sent()),
                reported: lost.is_some(),
            };
            (std::mem::take(&mut state.on_lost), state.tending.take())
        };
        if let Some(tending) = &tending {
            tending.end();
        }
        let outcome = self.give_up_slot(budget);
        // What callbacks captured is the user's, and may wait for somebody who waits for the slot.
        discard(callbacks);
        drop(tending);
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?} closed by {:?}: held for {:?}, {outcome:?}",
            self.slot, self.token, self.held_for()
        );
        let event = || CloseEvent {
            slot: self.slot.clone(),
            held_for: self.held_for(),
            outcome,
        };
        self.engine
            .tell(event, |observer, event| observer.on_close(event));
        outcome
    }

    fn is_held(&self) -> bool {
        self.deadline().is_some()
    }

    fn remaining(&self) -> Duration {
        self.deadline().map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(self.engine.clock.now())
        })
    }

    fn renew(&self) -> Result<(), GuardError> {
        if !self.is_held() {
            return Err(self.not_held());
        }
        let engine = &self.engine;
        let budget = engine.budget();
        let ttl = engine.settings.ttl;
        let answer = engine.store.renew(&self.slot, &self.token, ttl, budget);
        engine.heard(self.node, &answer);
        match answer {
            Ok(Renewed::Renewed) if self.prolong(budget) => {
                let sent = budget.sent();
                engine.gates.renewed(&self.slot, &self.token, sent);
                Ok(())
            }
            Ok(Renewed::Renewed) => Err(self.not_held()),
            Ok(Renewed::NotHeld) => {
                self.lose(self.not_its_own());
                Err(self.not_held())
            }
            // Unknown is not lost: the deadline decides.
            Err(error) => Err(GuardError::store(&self.slot, error)),
        }
    }

    fn token(&self) -> &LeaseToken {
        &self.token
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing
    }

    fn held_for(&self) -> Duration {
        if self.engine.is_inherited() {
            return Duration::ZERO;
        }
        let now = self.engine.clock.now();
        let until = match self.state.lock().phase {
            Phase::Held { .. } => now,
            Phase::Lost { at } | Phase::Closed { at, .. } => at,
        };
        until.saturating_duration_since(self.entered)
    }

    fn on_lost(self: Arc<Self>, callback: Callback) -> Result<(), GuardError> {
        self.engine.check_process(&self.slot)?;
        self.engine
            .callbacks
            .start()
            .map_err(|source| GuardError::Thread {
                name: self.engine.callbacks.thread_name().to_owned(),
                source: Arc::new(source),
            })?;
        let now = self.engine.clock.now();
        let mut state = self.state.lock();
        match state.phase {
            Phase::Held { .. } => {
                state.on_lost.push(callback);
                drop(state);
                self.enrol(now);
            }
            Phase::Lost { .. } => {
                drop(state);
                self.engine.callbacks.run(callback);
            }
            Phase::Closed { .. } => {
                drop(state);
                discard(vec![callback]);
            }
        }
        Ok(())
    }
}

impl<S: LeaseStore> Drop for HeldLease<S> {
    fn drop(&mut self) {
        if self.engine.is_inherited() {
            // To drop these would end at the store what is the parent's.
            std::mem::forget(self.state.get_mut().tending.take());
            std::mem::forget(Arc::clone(&self.engine));
        }
    }
}
