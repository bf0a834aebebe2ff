//! Which session carries which token's lease.

use std::collections::HashMap;
use std::sync::Arc;

use guard_core::{LeaseToken, SlotMap, SlotName};
use parking_lot::Mutex;

use crate::session::{Session, SessionId};

/// The leases of a store.
pub(crate) struct Leases<S> {
    /// Protects who holds what. A leaf: nothing else is locked, and no statement sent, under it.
    state: Mutex<State<S>>,
}

struct State<S> {
    by_token: HashMap<LeaseToken, Arc<Bound<S>>>,
    by_slot: SlotMap<LeaseToken>,
}

/// A session that carries a lease.
pub(crate) struct Bound<S> {
    pub(crate) slot: SlotName,
    pub(crate) id: SessionId,
    /// Protects the session while a statement is sent on it, which each caller waits for within its own budget.
    /// Empty once the session is used for something else. Under it only the leases' and the ghosts' locks are
    /// taken.
    pub(crate) session: Mutex<Option<S>>,
}

impl<S: Session> Leases<S> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                by_token: HashMap::new(),
                by_slot: SlotMap::default(),
            }),
        }
    }

    pub(crate) fn bind(&self, slot: &SlotName, token: &LeaseToken, session: S) {
        let bound = Bound {
            slot: slot.clone(),
            id: session.id().clone(),
            session: Mutex::new(Some(session)),
        };
        let replaced = self.state.lock().insert(token, Arc::new(bound));
        drop(replaced);
    }

    /// Binds a session from `from` to `to`. To be called with the session in use: so whoever has waited for the
    /// session can tell by [`carries`](Self::carries) whether it is still the same lease's.
    pub(crate) fn rebind(&self, bound: &Arc<Bound<S>>, from: &LeaseToken, to: &LeaseToken) {
        let mut state = self.state.lock();
        state.by_token.remove(from);
        let replaced = state.insert(to, Arc::clone(bound));
        drop(state);
        drop(replaced);
    }

    /// The session that carries `token`'s lease of `slot`.
    pub(crate) fn get(&self, slot: &SlotName, token: &LeaseToken) -> Option<Arc<Bound<S>>> {
        let state = self.state.lock();
        let bound = state.by_token.get(token)?;
        (bound.slot == *slot).then(|| Arc::clone(bound))
    }

    /// Whether `bound` carries `token`'s lease.
    pub(crate) fn carries(&self, bound: &Arc<Bound<S>>, token: &LeaseToken) -> bool {
        let state = self.state.lock();
        let carrying = state.by_token.get(token);
        carrying.is_some_and(|carrying| Arc::ptr_eq(carrying, bound))
    }

    pub(crate) fn remove(&self, token: &LeaseToken) {
        let mut state = self.state.lock();
        let removed = state.by_token.remove(token);
        if let Some(bound) = &removed
            && state.by_slot.get(&bound.slot) == Some(token)
        {
            state.by_slot.remove(&bound.slot);
        }
        drop(state);
        drop(removed);
    }

    /// The token of the lease of `slot` that the session `id` carries.
    pub(crate) fn token_of(&self, slot: &SlotName, id: &SessionId) -> Option<LeaseToken> {
        let state = self.state.lock();
        let token = state.by_slot.get(slot)?;
        let bound = state.by_token.get(token)?;
        (bound.id == *id).then(|| token.clone())
    }

    /// Whether a lease of this store holds the slot, as far as is known.
    pub(crate) fn holds(&self, slot: &SlotName) -> bool {
        self.state.lock().by_slot.contains_key(slot)
    }
}

impl<S> State<S> {
    fn insert(&mut self, token: &LeaseToken, bound: Arc<Bound<S>>) -> Option<Arc<Bound<S>>> {
        self.by_slot.insert(bound.slot.clone(), token.clone());
        self.by_token.insert(token.clone(), bound)
    }
}
