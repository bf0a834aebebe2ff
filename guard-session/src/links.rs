//! Sessions for operations: taken, repeated once on a new one, given back or closed.
//!
//! Not a pool crate's: a session that gets a lock leaves for as long as the lease lasts, which a pool would take
//! for a connection that is not given back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use guard_core::{Budget, StoreError};
use parking_lot::{Condvar, Mutex};

use crate::ghosts::{Call, Ghosts};
use crate::session::{Database, Failure, Session as _};

/// The sessions of a store that carry no lease.
pub(crate) struct Links<D: Database> {
    database: D,
    size: usize,
    pub(crate) operation_timeout: Duration,
    pub(crate) ghosts: Ghosts,
    /// Protects the idle sessions and the number of operations under way. Sessions are opened, used and closed
    /// with the lock free.
    state: Mutex<State<D::Session>>,
    freed: Condvar,
}

struct State<S> {
    /// With the time since when each is idle, longest first.
    idle: Vec<(Instant, S)>,
    busy: usize,
}

/// A session that is lent for one operation; it is closed when this is dropped.
pub(crate) struct Link<'a, D: Database> {
    session: D::Session,
    /// Whether it was used before, and may have ended since.
    reused: bool,
    permit: Permit<'a, D>,
}

/// The right to one of the sessions for operations.
struct Permit<'a, D: Database>(&'a Links<D>);

impl<D: Database> Drop for Permit<'_, D> {
    fn drop(&mut self) {
        self.0.state.lock().busy -= 1;
        self.0.freed.notify_one();
    }
}

impl<D: Database> Links<D> {
    /// Links that begin with the sessions `idle`.
    pub(crate) fn new(
        database: D,
        size: usize,
        operation_timeout: Duration,
        idle: Vec<D::Session>,
    ) -> Self {
        let since = Instant::now();
        Self {
            database,
            size,
            operation_timeout,
            ghosts: Ghosts::default(),
            state: Mutex::new(State {
                idle: idle.into_iter().map(|session| (since, session)).collect(),
                busy: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// A session, within the budget.
    pub(crate) fn take(&self, budget: Budget) -> Result<Link<'_, D>, StoreError> {
        let mut state = self.state.lock();
        while state.busy >= self.size {
            let wait = self.freed.wait_until(&mut state, budget.deadline());
            if wait.timed_out() {
                return Err(StoreError::transient(
                    "no session came free within the operation timeout (see `pool_size`)",
                ));
            }
        }
        state.busy += 1;
        let idle = state.idle.pop();
        drop(state);
        let permit = Permit(self);
        // The server ends a session that asks for nothing, and may have done so by now.
        let idle = idle.filter(|(since, _)| since.elapsed() < self.database.silence());
        let idle = idle.map(|(_, session)| session);
        let reused = idle.is_some();
        let session = match idle {
            Some(session) => session,
            None => self.database.open(budget)?,
        };
        Ok(Link {
            session,
            reused,
            permit,
        })
    }

    /// Ends every session at once.
    pub(crate) fn cut_off(&self) {
        self.database.cut_off();
    }

    /// Keeps a session that carries no lock for the next operation.
    pub(crate) fn keep(&self, session: D::Session) {
        let silence = self.database.silence();
        let mut state = self.state.lock();
        let old = state
            .idle
            .partition_point(|(since, _)| since.elapsed() >= silence);
        let old: Vec<_> = state.idle.drain(..old).collect();
        let surplus = if state.idle.len() < self.size {
            state.idle.push((Instant::now(), session));
            None
        } else {
            Some(session)
        };
        drop(state);
        drop((old, surplus));
    }

    /// Works on a session. One that is over since its last use is replaced by a new one, once. `call` is told if
    /// nobody knows whether the work brought the session a lock.
    pub(crate) fn operate<T>(
        &self,
        budget: Budget,
        call: Option<&Call<'_>>,
        work: impl Fn(&mut D::Session) -> Result<T, Failure>,
    ) -> Result<(T, Link<'_, D>), StoreError> {
        let mut link = self.take(budget)?;
        loop {
            // A panic leaves the call unanswered, too.
            let worked = catch_unwind(AssertUnwindSafe(|| work(&mut link.session)));
            let doubtful = match &worked {
                Ok(Err(failure)) => failure.leaves_doubt(),
                Ok(Ok(_)) => false,
                Err(_) => true,
            };
            if let Some(call) = call.filter(|_| doubtful) {
                call.left(link.session.id());
            }
            let failure = match worked.unwrap_or_else(|panic| resume_unwind(panic)) {
                Ok(answer) => return Ok((answer, link)),
                Err(failure) => failure,
            };
            let over = failure.is_over();
            let error = failure.into_store_error();
            if !over || !link.reused {
                return Err(error);
            }
            // What ended one session has likely ended them all.
            let idle = std::mem::take(&mut self.state.lock().idle);
            drop(idle);
            link.session = self.database.open(budget).map_err(|_| error)?;
            link.reused = false;
        }
    }
}

impl<'a, D: Database> Link<'a, D> {
    /// The session is fine and carries no lock.
    pub(crate) fn give_back(self) {
        let Self {
            session, permit, ..
        } = self;
        permit.0.keep(session);
    }

    /// Takes the session out for something longer.
    pub(crate) fn into_session(self) -> D::Session {
        self.session
    }
}
