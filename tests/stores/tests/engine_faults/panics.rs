//! Foreign code that panics ends no thread of the guard, and escapes no `close`.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use guard_conformance::{PATIENCE, eventually};
use guard_core::{
    CloseOutcome, EnterEvent, GuardConfig, GuardObserver, LostEvent, SandboxExecutionGuard as _,
    SandboxLease,
};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};
use parking_lot::Mutex;

use crate::{Hooked, Step, key, ttl};

/// Panics with something that panics again when it is dropped.
struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        panic!("on purpose, again");
    }
}

fn panics() {
    panic_any(Again);
}

#[test]
fn closing_survives_a_panic_whose_payload_panics() {
    let lease = SandboxLease::on_close(panics);
    assert_eq!(lease.close(), CloseOutcome::Released);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(SandboxLease::on_close(panics))));
    assert!(dropped.is_ok());

    let guard = MemorySandboxExecutionGuard::builder().build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let again = Again;
    lease.on_lost(move || drop(again)).unwrap();
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert!(guard.try_enter_now(&key("a")).unwrap().is_some());
}

#[test]
fn a_thread_that_unwinds_closes_such_a_lease_and_goes_on_unwinding() {
    let guard = MemorySandboxExecutionGuard::builder().build().unwrap();
    let work = {
        let guard = guard.clone();
        move || {
            let _closure = SandboxLease::on_close(panics);
            let lease = guard.try_enter(&key("a")).unwrap();
            let again = Again;
            lease.on_lost(move || drop(again)).unwrap();
            panic!("on purpose");
        }
    };
    assert!(thread::spawn(work).join().is_err());
    assert!(guard.try_enter_now(&key("a")).unwrap().is_some());
}

struct Panics(Mutex<mpsc::Sender<&'static str>>);

impl GuardObserver for Panics {
    fn on_enter(&self, _: &EnterEvent) {
        let _ = self.0.lock().send("entered");
        panics();
    }

    fn on_lost(&self, _: &LostEvent) {
        let _ = self.0.lock().send("lost");
        panics();
    }
}

#[test]
fn callbacks_and_observers_are_called_after_such_a_panic_too() {
    let (tell, told) = mpsc::channel();
    let store = MemoryStore::new();
    let guard = MemorySandboxExecutionGuard::builder()
        .store(store.clone())
        .lease_ttl(PATIENCE * 10)
        .observer(Arc::new(Panics(Mutex::new(tell))))
        .build()
        .unwrap();
    let (tell, called) = mpsc::channel();
    for round in 0..3 {
        let lease = guard.try_enter(&key("a")).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok("entered"));
        lease.on_lost(panics).unwrap();
        let tell = tell.clone();
        lease.on_lost(move || tell.send(round).unwrap()).unwrap();
        store.expire(&guard.slot(&key("a")));
        assert_eq!(called.recv_timeout(PATIENCE), Ok(round));
        assert_eq!(told.recv_timeout(PATIENCE), Ok("lost"));
    }
}

#[test]
fn a_store_that_panics_ends_no_renewal_and_no_release() {
    let steps = [Step::Renew, Step::Release, Step::Holder, Step::Watch];
    for panicking in steps {
        let panicked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&panicked);
        let guard = Hooked::new(move |step, _| {
            if step == panicking && count.fetch_add(1, Ordering::SeqCst) < 2 {
                panics();
            }
            Ok(())
        })
        .guard(&GuardConfig {
            auto_renew: panicking == Step::Renew,
            ..ttl(Duration::from_secs(6))
        });
        let lease = guard.try_enter(&key("a")).unwrap();
        let (tell, told) = mpsc::channel();
        lease.on_lost(move || tell.send(()).unwrap()).unwrap();
        if panicking == Step::Renew {
            thread::sleep(Duration::from_secs(8));
            assert!(lease.is_held() && panicked.load(Ordering::SeqCst) > 2);
        } else if panicking == Step::Release {
            assert_eq!(lease.close(), CloseOutcome::Deferred);
            eventually("the slot is free", || guard.store().memory.is_empty());
            continue;
        }
        guard.store().memory.expire(&guard.slot(&key("a")));
        told.recv_timeout(PATIENCE).expect("the loss is told");
    }
}

#[test]
fn an_entry_whose_store_panics_fails_and_leaves_nothing() {
    let panicked = AtomicU32::new(0);
    let guard = Hooked::new(move |step, _| {
        if step == Step::Acquired && panicked.fetch_add(1, Ordering::SeqCst) == 0 {
            panics();
        }
        Ok(())
    })
    .guard(&ttl(PATIENCE * 10));
    assert!(guard.try_enter(&key("a")).is_err());
    guard.try_enter_for(&key("a"), PATIENCE).unwrap().close();
    eventually("nothing is left", || guard.store().memory.is_empty());
}
