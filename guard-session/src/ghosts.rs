//! Sessions that may hold a lock, or may yet get one, although nobody uses them any more.

use guard_core::{Budget, LeaseToken, SlotName};
use parking_lot::Mutex;

use crate::session::{Failure, Session, SessionId};

/// Sessions that have to be ended from another one.
#[derive(Default)]
pub(crate) struct Ghosts {
    /// Protects the list. Statements are sent with the lock free.
    list: Mutex<Vec<Ghost>>,
}

#[derive(Clone)]
struct Ghost {
    session: SessionId,
    slot: SlotName,
    /// Whose call it was, if it was for a token.
    token: Option<LeaseToken>,
}

/// Which sessions are to be ended: one that does not end must not stand in the way of others.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    Slot(&'a SlotName),
    Token(&'a LeaseToken),
}

impl Ghost {
    fn is(&self, whose: Whose<'_>) -> bool {
        match whose {
            Whose::Slot(slot) => self.slot == *slot,
            Whose::Token(token) => self.token.as_ref() == Some(token),
        }
    }
}

impl Ghosts {
    pub(crate) fn add(&self, session: SessionId, slot: &SlotName, token: Option<&LeaseToken>) {
        let ghost = Ghost {
            session,
            slot: slot.clone(),
            token: token.cloned(),
        };
        self.list.lock().push(ghost);
    }

    /// Whether a session has to be ended before `token` is out of the slot for good.
    pub(crate) fn has(&self, token: &LeaseToken) -> bool {
        let list = self.list.lock();
        list.iter().any(|ghost| ghost.is(Whose::Token(token)))
    }

    /// Ends them by statements on `session`; answers whether one was there to be ended.
    pub(crate) fn settle(
        &self,
        session: &mut impl Session,
        whose: Whose<'_>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        let mut ghosts = self.list.lock().clone();
        ghosts.retain(|ghost| ghost.is(whose));
        let mut found = false;
        for ghost in ghosts {
            found |= session.end(&ghost.session, budget)?;
            self.list
                .lock()
                .retain(|other| other.session != ghost.session);
        }
        Ok(found)
    }
}
