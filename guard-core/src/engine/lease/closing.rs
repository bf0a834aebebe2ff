//! The end of a lease: its slot is handed over inside the process, or freed.

use std::time::Instant;

use super::{HeldLease, Phase};
use crate::base::error::StoreError;
use crate::base::time::Budget;
use crate::base::token::LeaseToken;
use crate::caller::lease::{CloseOutcome, LeaseBody as _};
use crate::engine::node_keeper::Doubt;
use crate::engine::turns::{AtClose, Follow};
use crate::engine::waiter::{Grant, Received};
use crate::store::contract::{HandedOver, LeaseStore, Released};

impl<S: LeaseStore> HeldLease<S> {
    /// Passes the slot on inside the process, or frees it.
    pub(super) fn give_up_slot(&self, budget: Budget) -> CloseOutcome {
        match self.turn.at_close(&self.engine.settings, budget.started()) {
            AtClose::HandOver => self.hand_over(budget),
            AtClose::Free(follow) => self.release(&self.token, budget, follow),
        }
    }

    /// Hands the slot to the first entry in line that takes it; frees it if none does.
    fn hand_over(&self, budget: Budget) -> CloseOutcome {
        let engine = &self.engine;
        let ttl = engine.settings.ttl;
        let mut from = self.token.clone();
        while let Some((receiver, to)) = engine.gates.receiver(&self.slot) {
            let answer = engine.store.hand_over(&self.slot, &from, &to, ttl, budget);
            engine.heard(self.node, &answer);
            match answer {
                Ok(HandedOver::Granted { fencing }) => {
                    let (at, deadline) = (engine.clock.now(), ttl.deadline(budget));
                    // A grant that took too long is none; the receiver, whose token it is, asks again.
                    if at >= deadline && receiver.put_in_doubt(&to) {
                        engine.gates.freed(&self.slot, &self.token, Follow::AtOnce);
                        return CloseOutcome::Released;
                    }
                    let grant = Grant {
                        token: to.clone(),
                        fencing,
                        sent: budget.sent(),
                        at,
                        deadline,
                        turn: self.turn.next(Instant::now()),
                    };
                    match engine.gates.hand(&self.slot, &receiver, grant) {
                        Received::Taken | Received::Already => return CloseOutcome::Released,
                        // It was interrupted or ran out of time just now: the slot goes to the next.
                        Received::Refused => from = to,
                    }
                }
                Ok(HandedOver::NotHeld) => return self.gone(&from),
                Err(error) if error.is_unknown() => {
                    // Once `from` is released for good the swap cannot happen any more.
                    engine.release_later(&self.slot, from, Doubt::None);
                    if !receiver.put_in_doubt(&to) {
                        engine.release_later(&self.slot, to, Doubt::UnderWay);
                    }
                    engine.gates.freed(&self.slot, &self.token, Follow::AtOnce);
                    self.log_deferral(&error);
                    return CloseOutcome::Deferred;
                }
                Err(_) => break,
            }
        }
        self.release(&from, budget, Follow::AtOnce)
    }

    /// Frees the slot of `token`: this lease's, or that of an entry which did not take it over.
    fn release(&self, token: &LeaseToken, budget: Budget, follow: Follow) -> CloseOutcome {
        let engine = &self.engine;
        let answer = engine.store.release(&self.slot, token, budget);
        engine.heard(self.node, &answer);
        let outcome = match answer {
            Ok(Released::Released) => CloseOutcome::Released,
            Ok(Released::NotHeld) => return self.gone(token),
            Err(error) => {
                engine.release_later(&self.slot, token.clone(), Doubt::None);
                self.log_deferral(&error);
                CloseOutcome::Deferred
            }
        };
        engine.gates.freed(&self.slot, &self.token, follow);
        outcome
    }

    /// The slot was not `token`'s any more.
    fn gone(&self, token: &LeaseToken) -> CloseOutcome {
        self.engine
            .gates
            .freed(&self.slot, &self.token, Follow::AtOnce);
        if *token != self.token {
            // This lease did pass the slot on, to an entry that had left.
            return CloseOutcome::Released;
        }
        // A loss that was noticed was warned of then.
        let level = match self.state.lock().phase {
            Phase::Closed { reported: true, .. } => log::Level::Debug,
            _ => log::Level::Warn,
        };
        log::log!(
            target: crate::LOG_TARGET,
            level,
            "sandbox slot {:?} was no longer this lease's when it was closed: held for {:?}, TTL {:?}",
            self.slot, self.held_for(), self.engine.settings.ttl.get()
        );
        CloseOutcome::AlreadyGone
    }

    fn log_deferral(&self, error: &StoreError) {
        log::warn!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?} could not be released, going on in the background: {error}", self.slot
        );
    }
}
