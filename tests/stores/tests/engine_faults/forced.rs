//! A lease that is ended by force while it comes to be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use guard_conformance::{PATIENCE, Waiting};
use guard_core::{CloseOutcome, LeaseGuard, SandboxExecutionGuard as _, SandboxLease};

use crate::{Hooked, Step, key, transient, ttl};

type Guard = Arc<LeaseGuard<Hooked>>;

/// A guard whose slot is freed by force once, when `at` was done and before the engine hears of it, if it ever does;
/// and the token that held it then.
fn forced_at(at: Step, answered: bool) -> (Guard, Arc<OnceLock<String>>) {
    let guard: Arc<OnceLock<Weak<LeaseGuard<Hooked>>>> = Arc::default();
    let (done, forced) = (AtomicBool::new(false), Arc::<OnceLock<String>>::default());
    let (operator, told) = (Arc::clone(&guard), Arc::clone(&forced));
    let store = Hooked::new(move |step, _| {
        if step == at && !done.swap(true, Ordering::SeqCst) {
            let guard = operator.get().and_then(Weak::upgrade).expect("the guard");
            let holder = guard.force_release(&key("a")).unwrap().expect("a holder");
            told.set(holder.short_token()).unwrap();
            if !answered {
                return Err(transient().with_unknown_outcome());
            }
        }
        Ok(())
    });
    let made = store.guard(&ttl(PATIENCE * 100));
    guard.set(Arc::downgrade(&made)).unwrap();
    (made, forced)
}

#[test]
fn a_lease_forced_off_between_its_grant_and_its_making_is_not_believed() {
    let (guard, _) = forced_at(Step::Acquired, true);
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
fn an_entry_whose_grant_was_forced_off_before_it_was_told_goes_by_another_token() {
    let (guard, forced) = forced_at(Step::Acquired, false);
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    holds_by_a_fresh_token(&guard, &lease, &forced);
}

#[test]
fn an_entry_forced_off_in_mid_hand_over_goes_by_another_token() {
    for answered in [true, false] {
        let (guard, forced) = forced_at(Step::HandedOver, answered);
        let lease = guard.try_enter(&key("a")).unwrap();
        let next = {
            let guard = Arc::clone(&guard);
            Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE).unwrap())
        };
        lease.close();
        holds_by_a_fresh_token(&guard, &next.result(), &forced);
    }
}

/// A token that was freed by force is spent: a lease by it could end at any time.
fn holds_by_a_fresh_token(guard: &Guard, lease: &SandboxLease, forced: &OnceLock<String>) {
    assert!(lease.is_held());
    assert_ne!(forced.get(), Some(&lease.token().short()));
    let holder = guard.holder(&key("a")).unwrap().expect("a holder");
    assert_eq!(holder.short_token(), lease.token().short());
    assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
    assert_eq!(lease.close(), CloseOutcome::Released);
}
