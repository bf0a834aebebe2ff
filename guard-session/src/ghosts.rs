//! Sessions that may hold a lock, or may yet get one, although nobody uses them any more; and the calls that may
//! make such sessions.

use std::collections::BTreeMap;

use guard_core::{Budget, LeaseToken, SlotName, StoreError};
use parking_lot::Mutex;

use crate::session::{Failure, Session, SessionId};

/// The calls that may bring a lock and are not over yet, and the sessions that have to be ended from another one.
#[derive(Default)]
pub(crate) struct Ghosts {
    /// Protects the list. Statements are sent with the lock free.
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    number: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Clone)]
struct Entry {
    slot: SlotName,
    /// Whose call it was, if it was for a token.
    token: Option<LeaseToken>,
    state: State,
}

#[derive(Clone)]
enum State {
    /// A call is under way, perhaps on a session that may get the lock by it.
    UnderWay(Option<SessionId>),
    /// The call is over and nobody knows what became of it: its session has to be ended.
    Left(SessionId),
}

/// Which sessions are to be ended: one that does not end must not stand in the way of others.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'a> {
    Slot(&'a SlotName),
    Token(&'a LeaseToken),
}

/// A call under way that may bring a lock. If it ends without a definite answer, by a panic too, its session is a
/// ghost.
pub(crate) struct Call<'a> {
    ghosts: &'a Ghosts,
    number: u64,
}

impl Entry {
    fn is(&self, whose: Whose<'_>) -> bool {
        match whose {
            Whose::Slot(slot) => self.slot == *slot,
            Whose::Token(token) => self.token.as_ref() == Some(token),
        }
    }

    const fn session(&self) -> Option<&SessionId> {
        match &self.state {
            State::UnderWay(session) => session.as_ref(),
            State::Left(session) => Some(session),
        }
    }
}

impl List {
    fn add(&mut self, entry: Entry) -> u64 {
        self.number += 1;
        self.entries.insert(self.number, entry);
        self.number
    }
}

impl Ghosts {
    /// Notes a session that has to be ended.
    pub(crate) fn add(&self, session: SessionId, slot: &SlotName, token: Option<&LeaseToken>) {
        self.list.lock().add(Entry {
            slot: slot.clone(),
            token: token.cloned(),
            state: State::Left(session),
        });
    }

    /// Notes that a call begins that may bring `token` the slot. Until the answer is dropped no release of the
    /// token is final.
    pub(crate) fn call(&self, slot: &SlotName, token: &LeaseToken) -> Call<'_> {
        let number = self.list.lock().add(Entry {
            slot: slot.clone(),
            token: Some(token.clone()),
            state: State::UnderWay(None),
        });
        Call {
            ghosts: self,
            number,
        }
    }

    /// Whether a session may bring `token` into the slot, or keep it there.
    pub(crate) fn haunt(&self, token: &LeaseToken) -> bool {
        let list = self.list.lock();
        let mut entries = list.entries.values();
        entries.any(|entry| entry.is(Whose::Token(token)) && entry.session().is_some())
    }

    /// Whether something of `token` is left or under way, so that it is not out of the slot for good.
    pub(crate) fn know(&self, token: &LeaseToken) -> bool {
        let list = self.list.lock();
        let mut entries = list.entries.values();
        entries.any(|entry| entry.is(Whose::Token(token)))
    }

    fn left(&self, whose: Whose<'_>) -> Vec<SessionId> {
        let list = self.list.lock();
        let entries = list.entries.values().filter(|entry| entry.is(whose));
        let left = entries.filter_map(|entry| match &entry.state {
            State::Left(session) => Some(session.clone()),
            State::UnderWay(_) => None,
        });
        left.collect()
    }

    /// Whether sessions are left to be ended.
    pub(crate) fn has_left(&self, whose: Whose<'_>) -> bool {
        !self.left(whose).is_empty()
    }

    /// Ends what is left by statements on `session`; answers whether one was there to be ended. One that cannot be
    /// ended keeps none of the others.
    pub(crate) fn settle(
        &self,
        session: &mut impl Session,
        whose: Whose<'_>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        let mut found = false;
        let mut refused: Option<StoreError> = None;
        for left in self.left(whose) {
            match session.end(&left, None, budget) {
                Ok(ended) => found |= ended,
                Err(Failure::Answer(error)) => {
                    refused.get_or_insert(error);
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            self.list.lock().entries.retain(
                |_, entry| !matches!(&entry.state, State::Left(session) if *session == left),
            );
        }
        match refused {
            Some(error) => Err(Failure::Answer(error)),
            None => Ok(found),
        }
    }
}

impl Call<'_> {
    /// From now on nobody knows what `session` has.
    pub(crate) fn on(&self, session: &SessionId) {
        self.now(State::UnderWay(Some(session.clone())));
    }

    /// What the session has is known.
    pub(crate) fn answered(&self) {
        self.now(State::UnderWay(None));
    }

    fn now(&self, state: State) {
        if let Some(entry) = self.ghosts.list.lock().entries.get_mut(&self.number) {
            entry.state = state;
        }
    }

    /// Nobody knows what became of it on `session`, which is a ghost; the call may go on with another one.
    pub(crate) fn left(&self, session: &SessionId) {
        let mut list = self.ghosts.list.lock();
        if let Some(entry) = list.entries.get(&self.number) {
            let mut left = entry.clone();
            left.state = State::Left(session.clone());
            list.add(left);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut list = self.ghosts.list.lock();
        let entry = list.entries.remove(&self.number);
        if let Some(mut entry) = entry
            && let State::UnderWay(Some(session)) = entry.state
        {
            entry.state = State::Left(session);
            list.add(entry);
        }
    }
}
