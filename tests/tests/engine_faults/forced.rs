//! A lease that is ended by force while it comes to be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use guard_conformance::{PATIENCE, Waiting};
use guard_core::{CloseOutcome, LeaseGuard, SandboxExecutionGuard as _};

use crate::{Hooked, Step, key, ttl};

/// A guard whose slot is freed by force once, when `at` was done and before the engine hears of it.
fn forced_at(at: Step) -> Arc<LeaseGuard<Hooked>> {
    let guard: Arc<OnceLock<Weak<LeaseGuard<Hooked>>>> = Arc::default();
    let done = AtomicBool::new(false);
    let operator = Arc::clone(&guard);
    let store = Hooked::new(move |step, _| {
        if step == at && !done.swap(true, Ordering::SeqCst) {
            let guard = operator.get().and_then(Weak::upgrade).expect("the guard");
            assert!(guard.force_release(&key("a")).unwrap().is_some());
        }
        Ok(())
    });
    let made = store.guard(&ttl(PATIENCE * 100));
    guard.set(Arc::downgrade(&made)).unwrap();
    made
}

#[test]
fn a_lease_forced_off_between_its_grant_and_its_making_is_not_believed() {
    let guard = forced_at(Step::Acquired);
    let lease = guard.try_enter(&key("a")).unwrap();
    let other = guard.try_enter_now(&key("a")).unwrap();
    assert!(other.is_none() || !lease.is_held(), "two leases are valid");
    if !lease.is_held() {
        let (tell, told) = mpsc::channel();
        lease.on_lost(move || tell.send(()).unwrap()).unwrap();
        told.recv_timeout(PATIENCE).expect("its holder is told");
    }
}

#[test]
fn an_entry_forced_off_in_mid_hand_over_makes_no_dead_lease() {
    let guard = forced_at(Step::HandedOver);
    let lease = guard.try_enter(&key("a")).unwrap();
    let next = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE).unwrap())
    };
    lease.close();
    let next = next.result();
    assert!(next.is_held());
    let holder = guard.holder(&key("a")).unwrap().expect("a holder");
    assert_eq!(holder.short_token(), next.token().short());
    assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
    assert_eq!(next.close(), CloseOutcome::Released);
}
