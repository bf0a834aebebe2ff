//! Opening sessions: the places of an address, each with its share of the time, and one attempt for all who wait
//! while the database fails.
//!
//! A server that is stopped still takes connections, and when it goes on it counts each that was given up in the
//! middle of its handshake: MySQL refuses a whole host after a hundred. So a handshake is not given up with the call
//! that began it: it goes on in the background, and whoever asks next gets its session.

mod place;
mod state;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, StoreError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout, timeout_at};

pub use place::{Place, Target};

use crate::reactor::Reactor;
use crate::session::{Database, Failure, Session};
use state::{State, Step};

/// What the callers' errors begin with.
const CONNECTING: &str = "connecting";

/// No handshake takes longer on a server that will ever answer it.
const GIVEN_UP: Duration = Duration::from_secs(5 * 60);

/// The longest time that the clock can be asked to wait.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a database's client opens a session; for authors of stores.
pub trait Dial: Send + Sync + 'static {
    /// What it opens.
    type Session: Send + 'static;

    /// The database's [`silence`](Database::silence).
    const SILENCE: Duration;

    /// Connects to one place, logs in and begins a session, in whatever time that takes. It runs on the reactor's
    /// thread; what it drops is closed.
    ///
    /// # Errors
    ///
    /// As [`Database::open`](crate::Database::open).
    fn dial(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<Self::Session, StoreError>> + Send;
}

/// Opens a database's sessions; for authors of stores.
pub struct Opener<D: Dial> {
    shared: Arc<Shared<D>>,
    reactor: Reactor,
    /// What an attempt has at least half of, so that who has little time left spoils nobody else's.
    timeout: Duration,
}

struct Shared<D: Dial> {
    dial: D,
    places: Vec<Place>,
    /// Protects what was opened and not taken yet, and how opening goes. Sessions are opened and closed with the
    /// lock free.
    state: Mutex<State<D::Session>>,
    changed: Condvar,
}

impl<D: Dial> Opener<D> {
    /// Starts the thread `name` that moves bytes, for sessions at `places`, which are tried in that order; those that
    /// did not answer the last time are tried last. `timeout` is the operation timeout.
    ///
    /// # Errors
    ///
    /// Whatever the operating system says to the thread or to what it needs.
    pub fn start(name: &str, dial: D, places: Vec<Place>, timeout: Duration) -> io::Result<Self> {
        let state = Mutex::new(State::new(places.len()));
        Ok(Self {
            reactor: Reactor::start(name)?,
            shared: Arc::new(Shared {
                dial,
                places,
                state,
                changed: Condvar::new(),
            }),
            timeout,
        })
    }

    /// A new session, within the budget.
    ///
    /// # Errors
    ///
    /// As [`Database::open`](crate::Database::open).
    pub fn open(&self, budget: Budget) -> Result<D::Session, StoreError> {
        if budget.remaining().is_zero() {
            return Err(Failure::out_of_time(CONNECTING).into_bare_error());
        }
        let mut state = self.shared.state.lock();
        let mut call = state.call();
        let outcome = loop {
            let until = match state.step(&mut call, Instant::now()) {
                Step::Take(session) => break Ok(session),
                Step::Close(session) => {
                    MutexGuard::unlocked(&mut state, || drop(session));
                    continue;
                }
                Step::Fail(error) => break Err(error),
                Step::Begin => {
                    MutexGuard::unlocked(&mut state, || self.begin(budget));
                    continue;
                }
                Step::Wait(until) => until,
            };
            let deadline = budget.deadline();
            if Instant::now() >= deadline {
                let answer = || Failure::no_answer(CONNECTING).into_bare_error();
                break Err(state.known_failure().unwrap_or_else(answer));
            }
            let until = until.map_or(deadline, |until| until.min(deadline));
            self.shared.changed.wait_until(&mut state, until);
        };
        state.end(call);
        drop(state);
        outcome
    }

    /// Ends the thread and with it every connection: whoever waits for an answer is told that there is none.
    pub fn stop(&self) {
        let left = self.shared.state.lock().stop();
        self.shared.changed.notify_all();
        drop(left);
        self.reactor.stop();
    }

    /// Begins an attempt, which has a little less time than the caller, so that its outcome is heard.
    fn begin(&self, budget: Budget) {
        let time = budget.remaining();
        let time = (time - time / 20).max(self.timeout / 2).min(LONGEST);
        let mut attempt = Attempt {
            shared: Arc::clone(&self.shared),
            outcome: None,
        };
        self.reactor.spawn(async move {
            let deadline = Instant::now() + time;
            attempt.outcome = Some(attempt.shared.try_places(deadline).await);
            drop(attempt);
        });
    }
}

impl<D: Dial<Session: Session>> Database for Opener<D> {
    type Session = D::Session;

    fn silence(&self) -> Duration {
        D::SILENCE
    }

    fn open(&self, budget: Budget) -> Result<D::Session, StoreError> {
        self.open(budget)
    }

    fn cut_off(&self) {
        self.stop();
    }
}

/// An attempt under way. When it is dropped, its outcome is told, whatever happened.
struct Attempt<D: Dial> {
    shared: Arc<Shared<D>>,
    outcome: Option<Result<D::Session, StoreError>>,
}

impl<D: Dial> Drop for Attempt<D> {
    fn drop(&mut self) {
        let ended = || Err(StoreError::transient("connecting: the thread has ended"));
        let outcome = self.outcome.take().unwrap_or_else(ended);
        let surplus = self.shared.state.lock().concluded(outcome, Instant::now());
        self.shared.changed.notify_all();
        drop(surplus);
    }
}

impl<D: Dial> Shared<D> {
    async fn try_places(self: &Arc<Self>, deadline: Instant) -> Result<D::Session, StoreError> {
        let mut refusals = Vec::new();
        let order = self.state.lock().order();
        let mut left = order.len();
        for index in order {
            let until = share(deadline, left);
            left -= 1;
            let targets = match timeout_at(until.into(), self.places[index].targets()).await {
                Ok(Ok(targets)) => self.state.lock().silent_last(targets),
                Ok(Err(error)) => {
                    refusals.push(error);
                    continue;
                }
                Err(_) => {
                    self.state.lock().is_silent(index);
                    refusals.push(silent(&self.places[index]));
                    continue;
                }
            };
            let mut addresses = targets.len();
            for target in targets {
                let until = share(until, addresses);
                addresses -= 1;
                match self.try_target(index, target, until).await {
                    Ok(session) => return Ok(session),
                    Err(error) => refusals.push(error),
                }
            }
        }
        Err(summary(refusals))
    }

    /// Opens a session at one place. Beyond `until` the handshake goes on by itself.
    async fn try_target(
        self: &Arc<Self>,
        index: usize,
        target: Target,
        until: Instant,
    ) -> Result<D::Session, StoreError> {
        if !self.state.lock().may_dial(&target, Instant::now()) {
            // Whoever waits gets the session of a handshake that is under way there already.
            sleep_until(until.into()).await;
            return Err(silent(&target));
        }
        let (tell, mut told) = oneshot::channel();
        let (shared, to) = (Arc::clone(self), target.clone());
        tokio::spawn(async move {
            let dialled = timeout(GIVEN_UP, shared.dial.dial(&to)).await;
            let dialled = dialled.unwrap_or_else(|_| Err(silent(&to)));
            if let Err(late) = tell.send(dialled) {
                let surplus = shared.state.lock().answered_late(index, &to, late);
                shared.changed.notify_all();
                drop(surplus);
            }
        });
        if let Ok(dialled) = timeout_at(until.into(), &mut told).await {
            self.state.lock().answers(index);
            return dialled.unwrap_or_else(|_| Err(silent(&target)));
        }
        self.state.lock().left_alone(index, &target, Instant::now());
        // From here on it is told that it is late.
        told.close();
        let Ok(just_now) = told.try_recv() else {
            return Err(silent(&target));
        };
        let mut state = self.state.lock();
        state.no_more_alone(index, &target);
        drop(state);
        just_now
    }
}

/// When the next of so many that are left has had its share of the time.
fn share(deadline: Instant, left: usize) -> Instant {
    let now = Instant::now();
    let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    now + deadline.saturating_duration_since(now) / left
}

fn silent(place: &impl std::fmt::Display) -> StoreError {
    StoreError::transient(format!(
        "connecting to {place}: no answer within its share of the operation timeout (see `operation_timeout`)"
    ))
}

/// One error of those of all places. If one of them may pass by itself, so may all.
fn summary(mut refusals: Vec<StoreError>) -> StoreError {
    let Some(last) = refusals.pop() else {
        return StoreError::transient("connecting: the address leads to no place");
    };
    if refusals.is_empty() {
        return last;
    }
    let is_transient = last.is_transient() || refusals.iter().any(StoreError::is_transient);
    let others: Vec<_> = refusals.iter().map(ToString::to_string).collect();
    let text = format!("{}; and at last", others.join("; "));
    let summary = if is_transient {
        StoreError::transient(text)
    } else {
        StoreError::permanent(text)
    };
    summary.with_source(last)
}
