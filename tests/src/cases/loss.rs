//! A lease that is lost, and who hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guard_core::{CloseOutcome, GuardError, SandboxLease};

use crate::backend::Backend;
use crate::fixture::{Fixture, PATIENCE, enter, eventually, key};
use crate::waiting::A_WHILE;

const SHORT: Duration = Duration::from_millis(500);

/// Counts how often `on_lost` calls.
fn count_losses(lease: &SandboxLease) -> Arc<AtomicU32> {
    let losses = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&losses);
    lease
        .on_lost(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    losses
}

fn wait_for_one(losses: &AtomicU32) {
    eventually("the loss is reported", || losses.load(Ordering::SeqCst) > 0);
}

/// A renewal that finds the lease deleted says so, and the loss is told once however often it is asked for.
pub(crate) fn renewing_a_deleted_slot_is_a_loss_reported_once(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let lease = enter(&fixture.guard(), &key("a"));
    let losses = count_losses(&lease);
    fixture.foreign().delete(&fixture.slot(&key("a")));
    for _ in 0..3 {
        assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
        assert!(!lease.is_held());
    }
    wait_for_one(&losses);
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    thread::sleep(A_WHILE);
    assert_eq!(losses.load(Ordering::SeqCst), 1);
}

/// A renewal that finds another token says so, and the loss is told once however often it is asked for.
pub(crate) fn renewing_a_stolen_slot_is_a_loss_reported_once(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let lease = enter(&fixture.guard(), &key("a"));
    let slot = fixture.slot(&key("a"));
    let losses = count_losses(&lease);
    fixture.foreign().set(&slot, "a thief", None);
    for _ in 0..3 {
        assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
        assert!(!lease.is_held());
    }
    wait_for_one(&losses);
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    thread::sleep(A_WHILE);
    assert_eq!(losses.load(Ordering::SeqCst), 1);
    assert!(fixture.carries(&slot, "a thief"));
    fixture.foreign().delete(&slot);
}

/// The end of the TTL is a loss that is told without being asked for, and final.
pub(crate) fn an_expired_lease_is_lost_and_never_held_again(backend: &dyn Backend) {
    let lease = enter(&Fixture::new(backend).guard_of(SHORT), &key("a"));
    let losses = count_losses(&lease);
    wait_for_one(&losses);
    assert!(!lease.is_held());
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    assert!(!lease.is_held());
    assert_eq!(losses.load(Ordering::SeqCst), 1);
}

/// A callback that comes after the loss is not forgotten.
pub(crate) fn on_lost_of_a_lost_lease_runs_at_once(backend: &dyn Backend) {
    let lease = enter(&Fixture::new(backend).guard_of(SHORT), &key("a"));
    eventually("the lease has expired", || !lease.is_held());
    wait_for_one(&count_losses(&lease));
}

/// A lease that was closed in time is not lost when its TTL would have ended.
pub(crate) fn on_lost_never_runs_after_close(backend: &dyn Backend) {
    let ttl = Duration::from_millis(500);
    let guard = Fixture::new(backend).guard_of(ttl);
    let lease = enter(&guard, &key("a"));
    let losses = count_losses(&lease);
    assert_eq!(lease.close(), CloseOutcome::Released);
    let late = count_losses(&lease);
    thread::sleep(ttl + A_WHILE);
    assert_eq!(losses.load(Ordering::SeqCst), 0);
    assert_eq!(late.load(Ordering::SeqCst), 0);
}

/// On the guard's own thread a callback may close the lease and drop the last handles.
pub(crate) fn a_callback_may_close_and_drop_everything(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard_of(SHORT);
    let lease = Arc::new(enter(&guard, &key("a")));
    let (tell, told) = mpsc::channel();
    let captured = (Arc::clone(&lease), guard);
    lease
        .on_lost(move || {
            let (lease, guard) = captured;
            lease.close();
            let again = guard.try_enter_for(&key("a"), PATIENCE).map(drop);
            drop((lease, guard));
            tell.send(again).unwrap();
        })
        .unwrap();
    drop(lease);
    told.recv_timeout(PATIENCE).unwrap().unwrap();
}

/// After a callback that panics the next one runs, and the guard goes on.
pub(crate) fn a_panicking_callback_harms_nobody(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard_of(SHORT);
    let lease = enter(&guard, &key("a"));
    lease.on_lost(|| panic!("on purpose")).unwrap();
    let losses = count_losses(&lease);
    wait_for_one(&losses);
    lease.close();
    assert!(guard.try_enter_for(&key("a"), PATIENCE).is_ok());
}

/// Nobody renews and the TTL is far away; that the holder's session has ended is found out all the same.
pub(crate) fn the_end_of_a_session_is_a_loss_that_is_noticed(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let lease = enter(&guard, &key("a"));
    let losses = count_losses(&lease);
    fixture.foreign().delete(&fixture.slot(&key("a")));
    wait_for_one(&losses);
    assert!(!lease.is_held() && lease.remaining() == Duration::ZERO);
    drop(enter(&guard, &key("a")));
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
}
