//! What a lease's TTL means to its holder and to those who wait.

use std::thread;
use std::time::{Duration, Instant};

use guard_core::{CloseOutcome, GuardError};

use crate::backend::Backend;
use crate::fixture::{Fixture, PATIENCE, assert_free, assert_held, enter, eventually, key};

const SHORT: Duration = Duration::from_millis(300);

/// A waiter gets the slot of a holder that never closes, not before its TTL.
pub(crate) fn an_expired_lease_lets_the_next_one_in(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard_of(SHORT);
    let before = Instant::now();
    let first = enter(&guard, &key("a"));
    let next = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    // The store's clock may tick in whole milliseconds.
    assert!(before.elapsed() >= SHORT - Duration::from_millis(2));
    assert!(next.is_held() && !first.is_held());
}

/// When the next holder is let in, the earlier one no longer believes; tried over and over.
pub(crate) fn two_leases_are_never_valid_at_once(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guards = [(); 2].map(|()| {
        fixture.guard_with(|config| {
            config.lease_ttl = Duration::from_millis(30);
            config.retry_interval = Duration::from_millis(1);
        })
    });
    let mut earlier = guards[0].try_enter(&key("a")).unwrap();
    for turn in 1..20 {
        let next = guards[turn % 2].try_enter_for(&key("a"), PATIENCE).unwrap();
        assert!(!earlier.is_held(), "two valid leases in turn {turn}");
        earlier = next;
    }
}

/// A holder that comes back after its TTL cannot free what is now somebody else's.
pub(crate) fn a_late_close_does_no_harm_to_the_next_holder(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (hasty, patient) = (fixture.guard_of(SHORT), fixture.guard());
    let late = enter(&hasty, &key("a"));
    let next = patient.try_enter_for(&key("a"), PATIENCE).unwrap();
    assert_eq!(late.close(), CloseOutcome::AlreadyGone);
    assert_held(&hasty, &key("a"));
    assert!(next.renew().is_ok());
    assert_eq!(next.close(), CloseOutcome::Released);
}

/// `remaining` runs down, `held_for` runs up, and closing stops both.
pub(crate) fn remaining_and_held_for_tell_a_leases_time(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let ttl = Duration::from_secs(60);
    let lease = enter(&fixture.guard_of(ttl), &key("a"));
    let (remaining, held_for) = (lease.remaining(), lease.held_for());
    assert!(remaining < ttl && remaining > ttl / 2, "{remaining:?}");
    thread::sleep(Duration::from_millis(5));
    assert!(lease.remaining() < remaining && lease.held_for() > held_for);
    lease.close();
    let held_for = lease.held_for();
    assert_eq!(lease.remaining(), Duration::ZERO);
    thread::sleep(Duration::from_millis(5));
    assert_eq!(lease.held_for(), held_for);
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
}

/// `renew` gives the holder its whole TTL again.
pub(crate) fn a_renewal_prolongs_the_lease(backend: &dyn Backend) {
    let ttl = Duration::from_secs(60);
    let lease = enter(&Fixture::new(backend).guard_of(ttl), &key("a"));
    eventually("some of the TTL has passed", || {
        // Longer than looking takes on a busy machine.
        lease.remaining() < ttl - Duration::from_secs(3)
    });
    let remaining = lease.remaining();
    lease.renew().unwrap();
    assert!(lease.remaining() > remaining);
}

/// And the slot, at the store.
pub(crate) fn a_renewal_prolongs_the_lease_at_the_store(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let ttl = Duration::from_secs(60);
    let lease = enter(&fixture.guard_of(ttl), &key("a"));
    let slot = fixture.slot(&key("a"));
    eventually("some of the TTL has passed", || {
        lease.remaining() < ttl - Duration::from_millis(300)
    });
    let there = fixture.ttl(&slot).unwrap();
    lease.renew().unwrap();
    assert!(fixture.ttl(&slot).unwrap() > there);
}

/// A holder that renews in time is never pushed out.
pub(crate) fn a_lease_that_is_renewed_outlives_its_ttl(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let ttl = Duration::from_secs(2);
    let guard = fixture.guard_of(ttl);
    let lease = enter(&guard, &key("a"));
    let entered = Instant::now();
    while entered.elapsed() < ttl + ttl / 2 {
        lease.renew().unwrap();
        assert_held(&guard, &key("a"));
        thread::sleep(Duration::from_millis(50));
    }
    assert!(lease.is_held());
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_free(&guard, &key("a"));
}
