//! What closing waits for, and what it does not; what the holder hears.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{
    CloseEvent, CloseOutcome, EnterEvent, GuardConfig, GuardObserver, SandboxExecutionGuard as _,
};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};

use crate::{Hooked, Step, key, transient, ttl};

/// Joins a thread as it is dropped.
struct Joins(Arc<Mutex<Option<JoinHandle<()>>>>);

impl Drop for Joins {
    fn drop(&mut self) {
        let thread = self.0.lock().unwrap().take();
        if let Some(thread) = thread {
            thread.join().unwrap();
        }
    }
}

#[test]
fn closing_frees_the_slot_before_it_drops_what_callbacks_captured() {
    let guard = MemorySandboxExecutionGuard::builder()
        .lease_ttl(PATIENCE * 10)
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let thread = Arc::new(Mutex::new(None));
    let joins = Joins(Arc::clone(&thread));
    lease.on_lost(move || drop(joins)).unwrap();
    let (tell, told) = mpsc::channel();
    *thread.lock().unwrap() = Some(thread::spawn(move || {
        guard.try_enter_for(&key("a"), PATIENCE).unwrap().close();
        tell.send(()).unwrap();
    }));
    assert_eq!(lease.close(), CloseOutcome::Released);
    told.recv_timeout(PATIENCE).expect("the waiter has entered");
}

#[test]
fn a_look_that_fails_once_is_repeated_and_the_loss_told_soon() {
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let guard = Hooked::new(move |step, _| match step {
        Step::Holder if counted.fetch_add(1, Ordering::SeqCst) < 3 => Err(transient()),
        _ => Ok(()),
    })
    .guard(&ttl(PATIENCE * 10));
    let lease = guard.try_enter(&key("a")).unwrap();
    let (tell, told) = mpsc::channel();
    lease.on_lost(move || tell.send(()).unwrap()).unwrap();
    eventually("the holder's watch looks", || {
        looks.load(Ordering::SeqCst) > 0
    });
    guard.store().memory.expire(&guard.slot(&key("a")));
    told.recv_timeout(PATIENCE).expect("the loss is told");
    assert!(!lease.is_held());
}

/// Never returns from its first event until it is told to.
struct Stuck {
    wait: Mutex<mpsc::Receiver<()>>,
    events: AtomicUsize,
}

impl GuardObserver for Stuck {
    fn on_enter(&self, _: &EnterEvent) {
        let _ = self.wait.lock().unwrap().recv();
        self.events.fetch_add(1, Ordering::SeqCst);
    }

    fn on_close(&self, _: &CloseEvent) {
        self.events.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_observer_that_never_returns_delays_no_loss_and_its_queue_has_a_bound() {
    const ENTRIES: usize = 10_000;
    let (release, wait) = mpsc::channel();
    let observer = Arc::new(Stuck {
        wait: Mutex::new(wait),
        events: AtomicUsize::new(0),
    });
    let store = MemoryStore::new();
    let guard = MemorySandboxExecutionGuard::builder()
        .store(store.clone())
        .lease_ttl(PATIENCE * 10)
        .observer(Arc::<Stuck>::clone(&observer))
        .build()
        .unwrap();
    for _ in 0..ENTRIES {
        guard.try_enter(&key("a")).unwrap().close();
    }
    let lease = guard.try_enter(&key("a")).unwrap();
    let (tell, told) = mpsc::channel();
    lease.on_lost(move || tell.send(()).unwrap()).unwrap();
    store.expire(&guard.slot(&key("a")));
    told.recv_timeout(PATIENCE).expect("the loss is told");
    drop(release);
    drop((lease, guard));
    let mut before = usize::MAX;
    eventually("the observer has heard all that waited for it", || {
        thread::sleep(Duration::from_millis(100));
        let now = observer.events.load(Ordering::SeqCst);
        now == std::mem::replace(&mut before, now)
    });
    assert!(
        before > 100 && before < ENTRIES,
        "{before} events were kept"
    );
}

#[test]
fn wake_ups_in_vain_are_followed_by_fewer_and_fewer_looks() {
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let guard = Hooked::new(move |step, _| {
        if step == Step::Acquire {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    })
    .guard(&GuardConfig {
        lease_ttl: PATIENCE * 10,
        ..GuardConfig::default()
    });
    let _lease = guard.try_enter(&key("a")).unwrap();
    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE).map(drop))
    };
    // A store that forgets whom it tells of which slot wakes everybody, again and again.
    let (begun, before) = (Instant::now(), looks.load(Ordering::SeqCst));
    while begun.elapsed() < Duration::from_secs(3) {
        guard.store().wake();
        thread::sleep(Duration::from_millis(5));
    }
    let made = looks.load(Ordering::SeqCst) - before;
    assert!(made > 2 && made < 30, "{made} looks in three seconds");
    waiting.interrupt();
    assert!(waiting.result().is_err());
}
