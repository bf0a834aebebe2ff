//! What session-bound stores share, on a database that fails whenever it likes: calls that are done and not
//! answered, done late, or not at all; sessions whose end the server never hears of.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually, together};
use guard_core::{
    Budget, GuardConfig, GuardError, Interrupt, IsolationScope, LeaseGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SlotName, StoreError, Wait,
};
use guard_session::{
    Database, Failure, LockHolder, Session, SessionId, SessionSettings, SessionStore,
};
use guard_store_tests::random::Random;

const SLOTS: usize = 3;

/// A server of locks.
struct Server {
    state: Mutex<State>,
    changed: Condvar,
    random: Mutex<Random>,
    /// One in so many calls fails; zero switches it off.
    rate: AtomicU64,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The sessions, and whether each lives.
    sessions: HashMap<u64, bool>,
    locks: HashMap<String, u64>,
}

impl State {
    fn lives(&self, session: u64) -> bool {
        self.sessions[&session]
    }

    fn try_lock(&mut self, slot: &str, session: u64) -> bool {
        if !self.lives(session) || self.locks.contains_key(slot) {
            return false;
        }
        self.locks.insert(slot.to_owned(), session);
        true
    }

    fn unlock(&mut self, slot: &str, session: u64) -> bool {
        let held = self.locks.get(slot) == Some(&session);
        if held {
            self.locks.remove(slot);
        }
        held
    }

    fn end(&mut self, session: u64) -> bool {
        self.locks.retain(|_, holder| *holder != session);
        self.sessions.insert(session, false) == Some(true)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    Refused,
    /// The session is cut, without the call or with it; the server may hear of it or not.
    Cut {
        done: bool,
        heard: bool,
    },
    /// It is done later, and never answered.
    Late,
}

impl Server {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            random: Mutex::new(Random::new(seed)),
            rate: AtomicU64::new(0),
        })
    }

    fn fate(&self) -> Fate {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut random = self.random.lock().unwrap();
        if rate == 0 || random.below(rate) > 0 {
            return Fate::Answered;
        }
        match random.below(6) {
            0 => Fate::Refused,
            1 => Fate::Late,
            n => Fate::Cut {
                done: n % 2 == 0,
                heard: n < 4,
            },
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let answer = work(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        answer
    }
}

struct Fake(Arc<Server>);

struct FakeSession {
    server: Arc<Server>,
    number: u64,
    id: SessionId,
    /// Whether the server hears of this session's end.
    heard: bool,
}

impl Database for Fake {
    type Session = FakeSession;

    fn silence(&self) -> Duration {
        Duration::MAX
    }

    fn open(&self, _: Budget) -> Result<FakeSession, StoreError> {
        if self.0.fate() != Fate::Answered {
            return Err(StoreError::transient("no connection"));
        }
        let number = self.0.with(|state| {
            state.next += 1;
            state.sessions.insert(state.next, true);
            state.next
        });
        Ok(FakeSession {
            server: Arc::clone(&self.0),
            number,
            id: SessionId::new(number.to_string()),
            heard: true,
        })
    }
}

impl FakeSession {
    fn call<T>(
        &mut self,
        work: impl FnOnce(&mut State, u64) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let number = self.number;
        let error = || StoreError::transient("as it likes");
        match self.server.fate() {
            _ if !self.server.with(|state| state.lives(number)) => Err(Failure::Ended(error())),
            Fate::Answered => Ok(self.server.with(|state| work(state, number))),
            Fate::Refused => Err(Failure::Answer(error())),
            Fate::Cut { done, heard } => {
                self.server.with(|state| {
                    if done {
                        work(state, number);
                    }
                    if heard {
                        state.end(number);
                    }
                });
                self.heard = heard;
                Err(Failure::Ended(error()))
            }
            Fate::Late => {
                let delay = self.server.random.lock().unwrap().below(20);
                let server = Arc::clone(&self.server);
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(delay));
                    server.with(|state| work(state, number));
                });
                self.heard = false;
                Err(Failure::Unanswered(error()))
            }
        }
    }
}

impl Session for FakeSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn try_lock(&mut self, slot: &SlotName, _: Budget) -> Result<bool, Failure> {
        let slot = slot.to_string();
        self.call(move |state, session| state.try_lock(&slot, session))
    }

    fn lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let end = Instant::now() + Duration::from_millis(30);
        loop {
            if self.try_lock(slot, budget)? {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let state = self.server.state.lock().unwrap();
            if state.locks.contains_key(slot.as_str()) && state.lives(self.number) {
                drop(self.server.changed.wait_timeout(state, left).unwrap());
            }
        }
    }

    fn unlock(&mut self, slot: &SlotName, _: Budget) -> Result<bool, Failure> {
        let slot = slot.to_string();
        self.call(move |state, session| state.unlock(&slot, session))
    }

    /// Does not fail: a lease that is lost under its holder is no matter of exclusion.
    fn probe(&mut self, _: Budget) -> Result<(), Failure> {
        let number = self.number;
        match self.server.with(|state| state.lives(number)) {
            true => Ok(()),
            false => Err(Failure::Ended(StoreError::transient("it has ended"))),
        }
    }

    fn holder(&mut self, slot: &SlotName, _: Budget) -> Result<Option<LockHolder>, Failure> {
        let slot = slot.to_string();
        let holder = self.call(move |state, _| state.locks.get(&slot).copied())?;
        Ok(holder.map(|number| LockHolder {
            session: SessionId::new(number.to_string()),
            owner: None,
            since: None,
            description: format!("session {number}"),
        }))
    }

    fn end(&mut self, other: &SessionId, _: Option<&SlotName>, _: Budget) -> Result<bool, Failure> {
        let other = other.as_str().parse().unwrap();
        self.call(move |state, _| state.end(other))
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        if self.heard {
            let number = self.number;
            self.server.with(|state| state.end(number));
        }
    }
}

fn guard(server: &Arc<Server>, wait_connections: u32) -> LeaseGuard<SessionStore<Fake>> {
    let (database, timeout) = (Fake(Arc::clone(server)), Duration::from_secs(1));
    let first = database.open(Budget::new(timeout)).unwrap();
    let settings = SessionSettings {
        pool_size: 3,
        wait_connections,
        operation_timeout: timeout,
    };
    let config = GuardConfig {
        retry_interval: Duration::from_millis(100),
        operation_timeout: timeout,
        ..GuardConfig::default()
    };
    LeaseGuard::new(SessionStore::new(database, settings, vec![first]), &config).unwrap()
}

fn key(slot: usize) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, slot.to_string()).unwrap()
}

fn storm(seed: u64, rate: u64, time: Duration) {
    println!("seed {seed}");
    let server = Server::new(seed);
    let guards = [guard(&server, 2), guard(&server, 2), guard(&server, 0)];
    let inside: [AtomicUsize; SLOTS] = Default::default();
    server.rate.store(rate, Ordering::Relaxed);
    let end = Instant::now() + time;
    let entries: usize = together(12, |number| {
        let mut random = Random::new(seed + 1 + number as u64);
        let guard = &guards[number % guards.len()];
        let mut entries = 0;
        while Instant::now() < end {
            let slot = random.below(SLOTS as u64) as usize;
            let interrupt = Interrupt::new();
            let wait = match random.below(4) {
                0 => Wait::not_at_all(),
                1 => Wait::at_most(Duration::from_millis(random.below(20))),
                _ => Wait::at_most(PATIENCE),
            };
            if random.below(8) == 0 {
                let (interrupt, delay) = (interrupt.clone(), random.below(3_000));
                thread::spawn(move || {
                    thread::sleep(Duration::from_micros(delay));
                    interrupt.interrupt();
                });
            }
            match guard.enter(&key(slot), wait.interruptible_by(&interrupt)) {
                Ok(lease) => {
                    assert_eq!(inside[slot].fetch_add(1, Ordering::SeqCst), 0);
                    thread::sleep(Duration::from_micros(random.below(300)));
                    inside[slot].fetch_sub(1, Ordering::SeqCst);
                    lease.close();
                    entries += 1;
                }
                Err(GuardError::TimedOut { waited, .. }) if waited < PATIENCE => {}
                Err(GuardError::Interrupted { .. }) => {}
                Err(error @ GuardError::Store { .. }) if error.is_transient() => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        entries
    })
    .into_iter()
    .sum();
    assert!(entries > 100, "{entries}");

    // Nothing of what went wrong stays in a slot for good.
    server.rate.store(0, Ordering::Relaxed);
    for slot in 0..SLOTS {
        for guard in &guards {
            drop(guard.try_enter_for(&key(slot), PATIENCE).unwrap());
        }
    }
    eventually("every lock is free", || {
        server.with(|state| state.locks.is_empty())
    });
    drop(guards);
    assert!(server.with(|state| state.locks.is_empty()));
}

#[test]
fn no_lock_is_lost_and_none_is_left_when_nothing_fails() {
    storm(1, 0, Duration::from_secs(2));
}

#[test]
fn no_lock_is_shared_and_none_is_left_when_calls_fail_now_and_then() {
    storm(2, 50, Duration::from_secs(4));
}

#[test]
fn no_lock_is_shared_and_none_is_left_when_calls_fail_often() {
    storm(3, 6, Duration::from_secs(4));
}
