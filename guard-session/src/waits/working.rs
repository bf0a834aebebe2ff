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
                    session = match waits.offer(&slot, thread, session) {
                        None => return,
                        // Woken and not come: others get their turn, and then this one waits again.
                        Some(unclaimed) => unclaimed,
                    };
                    let budget = Budget::new(links.operation_timeout);
                    if let Err(failure) = session.unlock(&slot, budget) {
                        // Whoever ends the waiting just now ends no session that is not blocked.
                        links.ghosts.add(session.id().clone(), &slot, None);
                        return self.failed(session, failure);
                    }
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
