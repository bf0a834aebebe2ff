//! The tracked connection: keys read on it are watched by the server.

use guard_core::{Budget, StoreError};
use parking_lot::{Condvar, Mutex};

use crate::connector::Live;
use crate::error::out_of_time;
use crate::session::{Failure, Session};
use crate::unanswered::Identity;

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
    /// Counts the connections: one that comes back after it was replaced is dropped.
    generation: u64,
}

#[derive(Default)]
enum Place {
    #[default]
    Down,
    Idle(Live),
    Busy,
}

impl Tracked {
    /// Puts a new connection in the old one's place.
    pub(crate) fn install(&self, live: Live) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.place = Place::Idle(live);
        self.changed.notify_all();
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

    /// Works on the connection as soon as it is free; `None` if there is none. A failure of the connection
    /// comes with its identity.
    pub(crate) fn use_within<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, (Failure, Option<Identity>)>> {
        match self.check_out(budget)? {
            Ok((live, generation)) => Some(self.use_now(live, generation, budget, work)),
            Err(error) => Some(Err((Failure::NotSent(error), None))),
        }
    }

    fn use_now<T>(
        &self,
        mut live: Live,
        generation: u64,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, (Failure, Option<Identity>)> {
        let result = work(&mut Session::new(&mut live.connection, budget));
        let result = result.map_err(|failure| (failure, live.known.identity.clone()));
        let broken = result.as_ref().is_err_and(|(failure, _)| {
            matches!(failure, Failure::Connection(_)) || failure.is_demotion()
        });
        let mut state = self.state.lock();
        if state.generation == generation {
            state.place = if broken {
                Place::Down
            } else {
                Place::Idle(live)
            };
        }
        drop(state);
        // All: the one that finds the connection gone wakes nobody else.
        self.changed.notify_all();
        result
    }

    /// Like [`use_within`](Self::use_within), but `None` too if the connection is in use.
    pub(crate) fn use_if_idle<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, (Failure, Option<Identity>)>> {
        let mut state = self.state.lock();
        let generation = state.generation;
        match std::mem::replace(&mut state.place, Place::Busy) {
            Place::Idle(live) => {
                drop(state);
                Some(self.use_now(live, generation, budget, work))
            }
            other => {
                state.place = other;
                None
            }
        }
    }

    fn check_out(&self, budget: Budget) -> Option<Result<(Live, u64), StoreError>> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut state.place, Place::Busy) {
                Place::Idle(live) => return Some(Ok((live, state.generation))),
                Place::Down => {
                    state.place = Place::Down;
                    return None;
                }
                Place::Busy => {
                    if self
                        .changed
                        .wait_until(&mut state, budget.deadline())
                        .timed_out()
                    {
                        return Some(Err(out_of_time("waiting for the tracked connection")));
                    }
                }
            }
        }
    }
}
