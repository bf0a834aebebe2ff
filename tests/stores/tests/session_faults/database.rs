//! A database that does with each call what the test says.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{Budget, SlotName, StoreError};
use guard_session::{
    Database, Failure, LOCK_SLICE, LockHolder, Session, SessionId, SessionSettings, SessionStore,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Open,
    /// Asks no server.
    Id,
    TryLock,
    Lock,
    Unlock,
    Probe,
    End,
}

const WANTED: &str = "as the test wants it";

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Answered,
    /// It is done, and then the database's code panics; the server does not hear of the session's end.
    Panics,
    /// It is not done, and takes all the time that it has.
    Stalls,
    /// It is refused at once.
    Refused,
    /// It is not done, the session is cut off, and the server does not hear of it.
    Cut,
}

type Script = dyn Fn(Call) -> Fate + Send + Sync;

/// A server of locks.
pub(crate) struct Server {
    state: Mutex<State>,
    changed: Condvar,
    script: Mutex<Arc<Script>>,
}

#[derive(Default)]
struct State {
    next: u64,
    living: BTreeSet<u64>,
    locks: HashMap<String, u64>,
}

impl State {
    fn try_lock(&mut self, slot: &str, session: u64) -> bool {
        if !self.living.contains(&session) || self.locks.contains_key(slot) {
            return false;
        }
        self.locks.insert(slot.to_owned(), session);
        true
    }

    fn end(&mut self, session: u64) -> bool {
        self.locks.retain(|_, holder| *holder != session);
        self.living.remove(&session)
    }
}

impl Server {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            script: Mutex::new(Arc::new(|_| Fate::Answered)),
        })
    }

    /// Says what becomes of the calls from now on. It is asked with no lock held, and may block.
    pub(crate) fn script(&self, script: impl Fn(Call) -> Fate + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    pub(crate) fn is_locked(&self, slot: &str) -> bool {
        self.state.lock().unwrap().locks.contains_key(slot)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let answer = work(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        answer
    }

    fn fate(&self, call: Call) -> Fate {
        let script = Arc::clone(&self.script.lock().unwrap());
        script(call)
    }
}

pub(crate) struct Fake(pub(crate) Arc<Server>);

pub(crate) struct FakeSession {
    server: Arc<Server>,
    number: u64,
    id: SessionId,
    /// Whether the server hears of this session's end.
    heard: bool,
}

pub(crate) fn store(
    server: &Arc<Server>,
    wait_connections: u32,
    operation_timeout: Duration,
) -> SessionStore<Fake> {
    let settings = SessionSettings {
        pool_size: 8,
        wait_connections,
        operation_timeout,
    };
    SessionStore::new(Fake(Arc::clone(server)), settings, Vec::new())
}

fn stall(budget: Budget) -> StoreError {
    thread::sleep(budget.remaining());
    StoreError::transient("no answer")
}

impl Database for Fake {
    type Session = FakeSession;

    fn silence(&self) -> Duration {
        Duration::MAX
    }

    fn open(&self, budget: Budget) -> Result<FakeSession, StoreError> {
        match self.0.fate(Call::Open) {
            Fate::Answered => {}
            Fate::Panics => panic!("{WANTED}"),
            Fate::Stalls => return Err(stall(budget)),
            Fate::Refused | Fate::Cut => return Err(StoreError::transient(WANTED)),
        }
        let number = self.0.with(|state| {
            state.next += 1;
            state.living.insert(state.next);
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
        call: Call,
        budget: Budget,
        work: impl FnOnce(&Server, u64) -> T,
    ) -> Result<T, Failure> {
        match self.server.fate(call) {
            Fate::Answered => Ok(work(&self.server, self.number)),
            Fate::Panics => {
                work(&self.server, self.number);
                self.heard = false;
                panic!("{WANTED}");
            }
            Fate::Stalls => {
                self.heard = false;
                Err(Failure::Unanswered(stall(budget)))
            }
            Fate::Refused => Err(Failure::Answer(StoreError::transient(WANTED))),
            Fate::Cut => {
                self.heard = false;
                Err(Failure::Ended(StoreError::transient(WANTED)))
            }
        }
    }
}

impl Session for FakeSession {
    fn id(&self) -> &SessionId {
        assert_ne!(self.server.fate(Call::Id), Fate::Panics, "{WANTED}");
        &self.id
    }

    fn try_lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        self.call(Call::TryLock, budget, |server, session| {
            server.with(|state| state.try_lock(slot.as_str(), session))
        })
    }

    fn lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        self.call(Call::Lock, budget, |server, session| {
            let end = Instant::now() + LOCK_SLICE;
            let mut state = server.state.lock().unwrap();
            loop {
                let left = end.saturating_duration_since(Instant::now());
                if state.try_lock(slot.as_str(), session) {
                    return true;
                }
                if left.is_zero() || !state.living.contains(&session) {
                    return false;
                }
                state = server.changed.wait_timeout(state, left).unwrap().0;
            }
        })
    }

    fn unlock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        self.call(Call::Unlock, budget, |server, session| {
            server.with(|state| {
                let held = state.locks.get(slot.as_str()) == Some(&session);
                if held {
                    state.locks.remove(slot.as_str());
                }
                held
            })
        })
    }

    fn probe(&mut self, budget: Budget) -> Result<(), Failure> {
        self.call(Call::Probe, budget, |_, _| ())
    }

    fn holder(&mut self, _: &SlotName, _: Budget) -> Result<Option<LockHolder>, Failure> {
        Ok(None)
    }

    fn end(
        &mut self,
        other: &SessionId,
        _: Option<&SlotName>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        let other = other.as_str().parse().unwrap();
        self.call(Call::End, budget, |server, _| {
            server.with(|state| state.end(other))
        })
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
