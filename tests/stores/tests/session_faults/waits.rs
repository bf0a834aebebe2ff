//! Waiting in a database whose code panics, or whose server stalls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually, forward_to};
use guard_core::{
    GuardError, LeaseGuard, LeaseStore, Registration, SandboxExecutionGuard, SlotName, Subscriber,
    Watch,
};
use guard_session::SessionStore;
use parking_lot::Mutex;

use crate::database::{Call, Fake, Fate, Server, store};
use crate::finality::granted;
use crate::hand_overs::{budget, token};
use crate::{SLACK, config, guard, key, slot};

const TIMEOUT: Duration = Duration::from_secs(2);

/// The first call of a kind panics, and then a wait for its slot, and the waits after it, are served as ever.
fn a_panic_harms_nobody(panicking: Call) {
    let server = Server::start();
    let (holder, waiting) = (guard(&server, 0, TIMEOUT), guard(&server, 1, TIMEOUT));
    let held = holder.try_enter_now(&key("a")).unwrap().unwrap();
    let (panicked, locks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    server.script({
        let (panicked, locks) = (Arc::clone(&panicked), Arc::clone(&locks));
        move |call| {
            if call == Call::Lock {
                locks.fetch_add(1, Ordering::SeqCst);
            }
            let panics = call == panicking
                && thread::current().name() == Some("guard-wait")
                && panicked.fetch_add(1, Ordering::SeqCst) == 0;
            if panics { Fate::Panics } else { Fate::Answered }
        }
    });
    let waiter = {
        let waiting = waiting.clone();
        Waiting::start(move || waiting.try_enter_for(&key("a"), PATIENCE))
    };
    eventually("the call is made", || panicked.load(Ordering::SeqCst) > 0);
    assert!(!waiter.is_over());
    held.close();
    drop(waiter.result().unwrap());

    // The only thread that waits is there again.
    let held = holder.try_enter_for(&key("b"), PATIENCE).unwrap();
    let before = locks.load(Ordering::SeqCst);
    let waiter = {
        let waiting = waiting.clone();
        Waiting::start(move || waiting.try_enter_for(&key("b"), PATIENCE))
    };
    eventually("it waits in the database", || {
        locks.load(Ordering::SeqCst) > before
    });
    held.close();
    drop(waiter.result().unwrap());
    drop((holder, waiting));
    assert!(!server.is_locked(slot("a").as_str()) && !server.is_locked(slot("b").as_str()));
}

#[test]
fn a_panic_before_a_session_waits_harms_nobody() {
    a_panic_harms_nobody(Call::Id);
}

/// The lock that the call brought is nobody's.
#[test]
fn a_panic_after_a_lock_was_won_harms_nobody() {
    a_panic_harms_nobody(Call::Lock);
}

/// A store whose watches outlive their entries.
struct Watching {
    store: SessionStore<Fake>,
    watches: Arc<Mutex<Vec<Watch>>>,
}

struct Kept;

impl Registration for Kept {}

impl LeaseStore for Watching {
    forward_to!(store: acquire, renew, release, hand_over, holder, capabilities);

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.watches
            .lock()
            .push(self.store.watch(slot, subscriber)?);
        Some(Watch::new(Kept))
    }
}

#[test]
fn a_store_whose_waits_do_not_end_is_dropped_within_one_operation() {
    const SLOTS: usize = 4;
    let server = Server::start();
    let holder = guard(&server, 0, TIMEOUT);
    let values: Vec<String> = (0..SLOTS).map(|number| number.to_string()).collect();
    let held: Vec<_> = values
        .iter()
        .map(|value| holder.try_enter_now(&key(value)).unwrap().unwrap())
        .collect();
    let watches = Arc::default();
    let watching = Watching {
        store: store(&server, SLOTS as u32, TIMEOUT),
        watches: Arc::clone(&watches),
    };
    let blocked = Arc::new(AtomicUsize::new(0));
    let ended = Arc::new(AtomicUsize::new(0));
    server.script({
        let (blocked, ended) = (Arc::clone(&blocked), Arc::clone(&ended));
        move |call| {
            match call {
                Call::Lock => drop(blocked.fetch_add(1, Ordering::SeqCst)),
                // Only the last of them ends.
                Call::End if ended.fetch_add(1, Ordering::SeqCst) + 1 < SLOTS => {
                    return Fate::Stalls;
                }
                _ => {}
            }
            Fate::Answered
        }
    });
    let waiting = LeaseGuard::new(watching, &config(TIMEOUT)).unwrap();
    for value in &values {
        let soon = Duration::from_millis(20);
        let outcome = waiting.try_enter_for(&key(value), soon);
        assert!(
            matches!(outcome, Err(GuardError::TimedOut { .. })),
            "{outcome:?}"
        );
    }
    eventually("all wait in the database", || {
        blocked.load(Ordering::SeqCst) == SLOTS
    });
    let before = Instant::now();
    drop(waiting);
    let took = before.elapsed();
    assert!(took < TIMEOUT + SLACK, "{took:?}");
    assert_eq!(ended.load(Ordering::SeqCst), SLOTS, "all got their share");
    watches.lock().clear();
    drop(held);
}

/// The look and the end of the session that waits beside it share one operation.
#[test]
fn an_entry_on_a_database_that_stalls_ends_one_operation_after_its_deadline() {
    let server = Server::start();
    let (holder, waiting) = (guard(&server, 0, TIMEOUT), guard(&server, 1, TIMEOUT));
    let held = holder.try_enter_now(&key("a")).unwrap().unwrap();
    let (looks, blocked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    server.script(move |call| match call {
        // Before the thread tells that its session waits, the look has been sent that follows the watch.
        Call::Id => {
            eventually("the second look", || looks.load(Ordering::SeqCst) > 1);
            Fate::Answered
        }
        Call::Lock => {
            blocked.fetch_add(1, Ordering::SeqCst);
            Fate::Answered
        }
        Call::TryLock if looks.fetch_add(1, Ordering::SeqCst) == 1 => {
            eventually("a session waits", || blocked.load(Ordering::SeqCst) > 0);
            Fate::Stalls
        }
        Call::End => Fate::Stalls,
        _ => Fate::Answered,
    });
    let patience = Duration::from_millis(200);
    let before = Instant::now();
    let outcome = waiting.try_enter_for(&key("a"), patience);
    let took = before.elapsed();
    assert!(
        matches!(outcome, Err(GuardError::Store { .. })),
        "{outcome:?}"
    );
    assert!(took < patience + TIMEOUT + SLACK, "{took:?}");
    server.script(|_| Fate::Answered);
    held.close();
    drop(waiting.try_enter_for(&key("a"), PATIENCE).unwrap());
}

/// A database that refuses the lock call of the waiting thread each time: the slot is polled, and a thread tried now and
/// then.
#[test]
fn a_wait_that_fails_again_and_again_is_tried_less_and_less() {
    let server = Server::start();
    let (holder, waiting) = (guard(&server, 0, TIMEOUT), guard(&server, 1, TIMEOUT));
    let held = holder.try_enter_now(&key("a")).unwrap().unwrap();
    let (locks, looks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    server.script({
        let (locks, looks) = (Arc::clone(&locks), Arc::clone(&looks));
        move |call| match call {
            Call::Lock => {
                locks.fetch_add(1, Ordering::SeqCst);
                Fate::Refused
            }
            Call::TryLock => {
                looks.fetch_add(1, Ordering::SeqCst);
                Fate::Answered
            }
            _ => Fate::Answered,
        }
    });
    let patience = Duration::from_secs(2);
    let outcome = waiting.try_enter_for(&key("a"), patience);
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
    let (locks, looks) = (locks.load(Ordering::SeqCst), looks.load(Ordering::SeqCst));
    // The pauses double from 50 ms; the looks are those of the retry interval, and one for each attempt.
    assert!((2..=8).contains(&locks), "{locks} lock calls");
    assert!(looks <= 60, "{looks} looks");
    drop(held);
}

/// A store whose waiter is woken and never comes: its session has the lock.
fn unclaimed(server: &Arc<Server>) -> (LeaseGuard<Watching>, SessionStore<Fake>) {
    let holder = guard(server, 0, TIMEOUT);
    let held = holder.try_enter_now(&key("a")).unwrap().unwrap();
    let idle = store(server, 1, TIMEOUT);
    let watching = Watching {
        store: idle.clone(),
        watches: Arc::default(),
    };
    let waiting = LeaseGuard::new(watching, &config(TIMEOUT)).unwrap();
    let outcome = waiting.try_enter_for(&key("a"), Duration::from_millis(20));
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
    held.close();
    eventually("the lock is won", || server.is_locked(slot("a").as_str()));
    (waiting, idle)
}

#[test]
fn a_lock_that_nobody_claims_is_given_up() {
    let server = Server::start();
    let (_waiting, _) = unclaimed(&server);
    let (other, token) = (store(&server, 0, TIMEOUT), token());
    eventually("another store gets it", || {
        granted(&other, &slot("a"), &token)
    });
    other.release(&slot("a"), &token, budget()).unwrap();
}

#[test]
fn a_session_that_does_not_give_up_what_nobody_claims_is_ended() {
    let server = Server::start();
    let (_waiting, idle) = unclaimed(&server);
    let unlocks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unlocks);
    server.script(move |call| {
        if call == Call::Unlock && count.fetch_add(1, Ordering::SeqCst) == 0 {
            Fate::Cut
        } else {
            Fate::Answered
        }
    });
    eventually("it is given up in vain", || {
        unlocks.load(Ordering::SeqCst) > 0
    });
    let token = token();
    eventually("its session is ended by who wants the slot", || {
        granted(&idle, &slot("a"), &token)
    });
    idle.release(&slot("a"), &token, budget()).unwrap();
}
