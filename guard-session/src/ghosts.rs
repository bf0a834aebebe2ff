//! Sessions that may hold a lock, or may yet get one, although nobody uses them any more.

use guard_core::{Budget, LeaseToken};
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
    /// Whose call it was, if it was for a token.
    token: Option<LeaseToken>,
}

impl Ghosts {
    pub(crate) fn add(&self, session: SessionId, token: Option<&LeaseToken>) {
        let token = token.cloned();
        self.list.lock().push(Ghost { session, token });
    }

    /// Whether a session has to be ended before `token` is out of the slot for good.
    pub(crate) fn has(&self, token: &LeaseToken) -> bool {
        let list = self.list.lock();
        list.iter().any(|ghost| ghost.token.as_ref() == Some(token))
    }

    /// Ends all of them by statements on `session`; answers whether one of `token` was there to be ended.
    pub(crate) fn settle(
        &self,
        session: &mut impl Session,
        token: Option<&LeaseToken>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        let mut found = false;
        let ghosts = self.list.lock().clone();
        for ghost in ghosts {
            let ended = session.end(&ghost.session, budget)?;
            found |= ended && token.is_some() && ghost.token.as_ref() == token;
            self.list
                .lock()
                .retain(|other| other.session != ghost.session);
        }
        Ok(found)
    }
}
