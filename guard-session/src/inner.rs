//! The session of a lease: asked whether it lives, freed of its lock, and ended where nobody knows what it has.

use std::sync::Arc;

use guard_core::{Budget, Capabilities, LeaseToken, Released, Renewed, SlotName, StoreError};
use parking_lot::MutexGuard;

use crate::ghosts::Whose;
use crate::leases::{Bound, Leases};
use crate::links::Links;
use crate::process::Process;
use crate::session::{Database, Failure, Session as _, SessionId};
use crate::waits::Waits;

/// The sessions of a store, and what they are used for.
pub(crate) struct Inner<D: Database> {
    pub(crate) links: Arc<Links<D>>,
    pub(crate) leases: Arc<Leases<D::Session>>,
    pub(crate) waits: Arc<Waits<D>>,
    pub(crate) capabilities: Capabilities,
    pub(crate) process: Process,
}

/// Where the session of a lease is, in use.
pub(crate) type Place<'a, S> = MutexGuard<'a, Option<S>>;

impl<D: Database> Inner<D> {
    /// The session of a lease, as soon as nobody uses it; `None` if by then it carries that lease no more.
    pub(crate) fn session_of<'a>(
        &self,
        bound: &'a Arc<Bound<D::Session>>,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Option<Place<'a, D::Session>>, StoreError> {
        let Some(place) = bound.session.try_lock_until(budget.deadline()) else {
            return Err(StoreError::transient(
                "another statement on the lease's session takes too long",
            ));
        };
        Ok(self.leases.carries(bound, token).then_some(place))
    }

    /// Asks the session of a lease whether it lives; `None` if it does not, or is not that lease's any more.
    pub(crate) fn ask<'a>(
        &self,
        bound: &'a Arc<Bound<D::Session>>,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Option<Place<'a, D::Session>>, StoreError> {
        let Some(mut place) = self.session_of(bound, token, budget)? else {
            return Ok(None);
        };
        let probed = place.as_mut().map(|session| session.probe(budget));
        self.judge(bound, token, place, probed)
    }

    /// What the answer of a lease's session means.
    pub(crate) fn judge<'a>(
        &self,
        bound: &'a Arc<Bound<D::Session>>,
        token: &LeaseToken,
        mut place: Place<'a, D::Session>,
        probed: Option<Result<(), Failure>>,
    ) -> Result<Option<Place<'a, D::Session>>, StoreError> {
        match probed {
            Some(Ok(())) => return Ok(Some(place)),
            Some(Err(failure)) if failure.is_over() => {
                log::debug!(
                    target: guard_core::LOG_TARGET,
                    "sandbox slot {:?}: the session of {token:?} has ended: {}",
                    bound.slot, failure.into_bare_error()
                );
                // Perhaps only our end of it has.
                let ghosts = &self.links.ghosts;
                ghosts.add(bound.id.clone(), &bound.slot, Some(token));
                *place = None;
            }
            Some(Err(failure)) => return Err(failure.into_store_error()),
            None => {}
        }
        self.leases.remove(token);
        Ok(None)
    }

    /// Renews a lease without keeping the thread.
    #[allow(
        clippy::await_holding_lock,
        reason = "the thread that holds a session waits for its answer only; others wait within their budgets"
    )]
    pub(crate) async fn renewing(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let Some(bound) = self.leases.get(slot, token) else {
            return Ok(Renewed::NotHeld);
        };
        let Some(mut place) = bound.session.try_lock() else {
            return Err(StoreError::transient(
                "another statement on the lease's session is under way",
            ));
        };
        if !self.leases.carries(&bound, token) {
            return Ok(Renewed::NotHeld);
        }
        let probed = match place.as_mut() {
            Some(session) => Some(session.probing(budget).await),
            None => None,
        };
        let living = self.judge(&bound, token, place, probed)?;
        Ok(renewed(living.is_some()))
    }

    /// Frees the slot if the session of `token`'s lease holds it; answers whether the slot was the token's until then.
    pub(crate) fn unlock(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<bool, StoreError> {
        let Some(bound) = self.leases.get(slot, token) else {
            return Ok(false);
        };
        let Some(mut place) = self.session_of(&bound, token, budget)? else {
            return Ok(false);
        };
        let Some(mut session) = place.take() else {
            self.leases.remove(token);
            return Ok(false);
        };
        let call = self.links.ghosts.call(slot, token);
        call.on(&bound.id);
        let unlocked = session.unlock(slot, budget);
        self.leases.remove(token);
        match unlocked {
            Ok(held) => {
                call.answered();
                // If it did not hold its lock, somebody else has used the session.
                if held {
                    self.links.keep(session);
                }
                Ok(held)
            }
            Err(Failure::Unfit(_)) => Ok(false),
            // What ends now held the slot until now.
            Err(_) => Ok(true),
        }
    }

    /// Ends what is left of `token`, so that it holds nothing and never will; answers whether there was something.
    pub(crate) fn settle(&self, token: &LeaseToken, budget: Budget) -> Result<bool, StoreError> {
        const NOT_FINAL: &str = "the release is not final: ";
        let ghosts = &self.links.ghosts;
        let mut found = false;
        if ghosts.has_left(Whose::Token(token)) {
            let work =
                |session: &mut D::Session| ghosts.settle(session, Whose::Token(token), budget);
            let (ended, link) = self.links.operate(budget, None, work).map_err(|error| {
                let why = "the session of an unanswered call could not be ended yet";
                StoreError::transient(format!("{NOT_FINAL}{why}")).with_source(error)
            })?;
            link.give_back();
            found = ended;
        }
        if ghosts.know(token) {
            let why = "another call of this token is under way";
            return Err(StoreError::transient(format!("{NOT_FINAL}{why}")));
        }
        Ok(found)
    }

    /// Ends whoever's session `id` is, if it holds the slot.
    pub(crate) fn force(
        &self,
        slot: &SlotName,
        id: &SessionId,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        let work = |session: &mut D::Session| match session.holder(slot, budget)? {
            Some(holder) if holder.session == *id => session.end(id, Some(slot), budget),
            _ => Ok(false),
        };
        let (ended, link) = self.links.operate(budget, None, work)?;
        link.give_back();
        Ok(released(ended))
    }
}

pub(crate) const fn renewed(lives: bool) -> Renewed {
    if lives {
        Renewed::Renewed
    } else {
        Renewed::NotHeld
    }
}

pub(crate) const fn released(ended: bool) -> Released {
    if ended {
        Released::Released
    } else {
        Released::NotHeld
    }
}

impl<D: Database> Drop for Inner<D> {
    fn drop(&mut self) {
        if self.process.is_this() {
            self.waits.stop(Budget::new(self.links.operation_timeout));
        }
    }
}
