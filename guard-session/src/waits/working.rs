//! A thread that waits in the database.

use std::sync::Arc;
use std::thread;

use guard_core::{Budget, LOG_TARGET, SlotName};

use super::Waits;
use crate::session::{Database, Failure, LOCK_SLICE, Session as _, SessionId};

/// A thread at its work. Dropping it gives the slot back to those who poll, a panic of the database included.
pub(super) struct Working<D: Database> {
    pub(super) waits: Arc<Waits<D>>,
    pub(super) slot: SlotName,
    pub(super) thread: u64,
    /// What a panic leaves behind at the server, perhaps.
    pub(super) session: Option<SessionId>,
    /// Whether the database has answered a lock call.
    pub(super) worked: bool,
}

impl<D: Database> Working<D> {
    /// Until the slot is claimed, nobody waits for it any more, or the session fails.
    pub(super) fn run(&mut self) {
        let waits = Arc::clone(&self.waits);
        let (links, slot, thread) = (&waits.links, self.slot.clone(), self.thread);
        let mut session = match links.take(Budget::new(links.operation_timeout)) {
            Ok(link) => link.into_session(),
            Err(error) => {
                return log::debug!(
                    target: LOG_TARGET,
                    "no session to wait for sandbox slot {slot:?}, polling: {error}"
                );
            }
        };
        if !waits.block(&slot, thread, session.id()) {
            return links.keep(session);
        }
        self.session = Some(session.id().clone());
        loop {
            let time = LOCK_SLICE.saturating_add(links.operation_timeout);
            let locked = session.lock(&slot, Budget::new(time));
            self.worked |= locked.is_ok();
            match locked {
                Ok(true) => {
                    let Some(unclaimed) = waits.offer(&slot, thread, session) else {
                        return;
                    };
                    // Woken and not come: the slot is left to others for a while.
                    self.worked = false;
                    return self.give_up(unclaimed);
                }
                Ok(false) => {}
                Err(failure) => return self.failed(session, failure),
            }
            if !waits.block(&slot, thread, session.id()) {
                // Whoever ended the waiting may be ending this session just now: it is not used again.
                return;
            }
        }
    }

    /// Frees a lock that nobody claims.
    fn give_up(&self, mut session: D::Session) {
        let links = &self.waits.links;
        match session.unlock(&self.slot, Budget::new(links.operation_timeout)) {
            Ok(true) => links.keep(session),
            // Somebody else has used the session.
            Ok(false) => {}
            // Whoever ends the waiting just now ends no session that is not blocked.
            Err(_) => links.ghosts.add(session.id().clone(), &self.slot, None),
        }
    }

    fn failed(&self, session: D::Session, failure: Failure) {
        let (links, slot) = (&self.waits.links, &self.slot);
        let wanted = self.waits.state.lock().of(slot, self.thread).is_some();
        if wanted {
            if failure.leaves_doubt() {
                links.ghosts.add(session.id().clone(), slot, None);
            }
            let error = failure.into_store_error();
            log::debug!(
                target: LOG_TARGET,
                "waiting for sandbox slot {slot:?} failed, polling: {error}"
            );
        }
        drop(session);
    }
}

impl<D: Database> Drop for Working<D> {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(session) = self.session.take()
        {
            self.waits.links.ghosts.add(session, &self.slot, None);
        }
        self.waits.leave(&self.slot, self.thread, self.worked);
    }
}
