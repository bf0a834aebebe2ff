//! The tracked connection: keys read on it are watched by the server.

use guard_core::Budget;
use parking_lot::{Condvar, Mutex};

use crate::connection::dial::share;
use crate::connection::exchange::Exchange;
use crate::connection::open_connection::OpenConnection;
use crate::protocol::failure::Failure;

/// Which part of its time an operation waits for the connection: after that it does without.
const PATIENCE: usize = 8;

/// One connection that is used by one look at a time.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Protects where the connection is. It is used with the lock free.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    place: Place,
    /// Counts the connections and their ends: one that comes, or comes back, after that is dropped.
    generation: u64,
}

#[derive(Default)]
enum Place {
    #[default]
    Down,
    Idle(Box<OpenConnection>),
    Busy,
}

impl Tracked {
    /// Which connection this is, for the [installation](Self::install) of its successor.
    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Puts a new connection in the place of the one of `generation`, unless that was given up since; answers
    /// whether it did.
    pub(crate) fn install(&self, connection: OpenConnection, generation: u64) -> bool {
        let mut state = self.state.lock();
        if state.generation != generation {
            return false;
        }
        state.generation += 1;
        state.place = Place::Idle(Box::new(connection));
        self.changed.notify_all();
        true
    }

    /// Gives the connection up.
    pub(crate) fn take_down(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.place = Place::Down;
        self.changed.notify_all();
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state.lock().place, Place::Down)
    }

    /// Works on the connection, within half of what is then left of the budget: should this one connection
    /// hang, there are others for the rest. `None` if there is none, or it does not come free soon.
    pub(crate) fn use_soon<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let (connection, generation) = self.check_out(share(budget, PATIENCE))?;
        Some(self.use_now(connection, generation, share(budget, 2), work))
    }

    fn use_now<T>(
        &self,
        mut connection: Box<OpenConnection>,
        generation: u64,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut exchange = Exchange::on(&mut connection, budget);
        exchange.tracked = true;
        let result = work(&mut exchange);
        self.used(connection, generation, result)
    }

    /// Puts the connection back, or gives it up, after it was used.
    fn used<T>(
        &self,
        connection: Box<OpenConnection>,
        generation: u64,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let broken = result.as_ref().is_err_and(|failure| {
            matches!(failure, Failure::Connection(_)) || failure.is_demotion()
        });
        self.put_back(generation, (!broken).then_some(connection));
        result
    }

    fn put_back(&self, generation: u64, connection: Option<Box<OpenConnection>>) {
        let mut state = self.state.lock();
        if state.generation == generation {
            state.place = connection.map_or(Place::Down, Place::Idle);
        }
        // Who uses the connection wakes the next one when it is done; who finds it gone wakes nobody.
        if matches!(state.place, Place::Idle(_)) {
            self.changed.notify_one();
        } else {
            self.changed.notify_all();
        }
    }

    /// Works on the connection; `None` if there is none, or it is in use.
    pub(crate) fn use_if_idle<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let (connection, generation) = self.check_out_if_idle()?;
        Some(self.use_now(connection, generation, budget, work))
    }

    fn check_out_if_idle(&self) -> Option<(Box<OpenConnection>, u64)> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.place, Place::Busy) {
            Place::Idle(connection) => Some((connection, state.generation)),
            other => {
                state.place = other;
                None
            }
        }
    }

    fn check_out(&self, patience: Budget) -> Option<(Box<OpenConnection>, u64)> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut state.place, Place::Busy) {
                Place::Idle(connection) => return Some((connection, state.generation)),
                Place::Down => {
                    state.place = Place::Down;
                    return None;
                }
                Place::Busy => {
                    let wait = self.changed.wait_until(&mut state, patience.deadline());
                    // It may have come free at the last moment.
                    if wait.timed_out() && !matches!(state.place, Place::Idle(_)) {
                        return None;
                    }
                }
            }
        }
    }
}
