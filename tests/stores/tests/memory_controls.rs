//! What only the in-memory store can be asked: the clock by hand, and faults on demand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually, together};
use guard_memory::{
    CloseOutcome, Fault, GuardError, IsolationScope, ManualClock, MemoryGuardBuilder,
    MemorySandboxExecutionGuard, MemoryStore, SandboxExecutionGuard, SandboxIsolationKey,
    SandboxLease,
};

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap()
}

fn builder() -> MemoryGuardBuilder {
    MemorySandboxExecutionGuard::builder()
}

fn guard() -> MemorySandboxExecutionGuard {
    builder().build().unwrap()
}

fn enter(guard: &MemorySandboxExecutionGuard) -> SandboxLease {
    guard.try_enter_now(&key()).unwrap().expect("a free slot")
}

/// Waits until the guard has worked off its background and nothing holds a slot.
fn wait_until_free(guard: &MemorySandboxExecutionGuard) {
    eventually("the slot is free", || guard.holders().is_empty());
    assert_eq!(guard.store().faults_left(), 0);
}

#[track_caller]
fn assert_store_error<T>(outcome: Result<T, GuardError>, wanted_transient: bool) {
    match outcome.map(drop) {
        Err(GuardError::Store { transient, .. }) => assert_eq!(transient, wanted_transient),
        other => panic!("{other:?}"),
    }
}

#[test]
fn thirty_minutes_pass_without_a_sleep() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    let guard = builder().store(store).build().unwrap();
    let started = Instant::now();
    let lease = enter(&guard);
    let (tell, told) = mpsc::channel();
    lease.on_lost(move || tell.send(()).unwrap()).unwrap();
    clock.advance(Duration::from_secs(30 * 60 - 1));
    assert!(!lease.is_held(), "a holder stops believing a little early");
    assert_eq!(
        guard.holders().len(),
        1,
        "and the store keeps its word to the end"
    );
    assert!(guard.try_enter_now(&key()).unwrap().is_none());
    clock.advance(Duration::from_secs(1));
    told.recv_timeout(PATIENCE).unwrap();
    let next = enter(&guard);
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(next.is_held());
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_bound_of_renewal_without_renewal_is_refused() {
    let bounded = || builder().max_hold(Duration::from_secs(60));
    let error = bounded().build().unwrap_err().to_string();
    assert!(
        error.contains("max_hold") && error.contains("auto_renew"),
        "{error}"
    );
    assert!(bounded().auto_renew(true).build().is_ok());
}

#[test]
fn the_clock_set_forward_wakes_a_waiter() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    let interval = Duration::from_secs(3600);
    let guard = builder()
        .store(store)
        .retry_interval(interval)
        .build()
        .unwrap();
    let lease = enter(&guard);
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key()))
    };
    clock.advance(Duration::from_secs(30 * 60));
    assert!(waiting.result().unwrap().is_held());
    assert!(!lease.is_held());
}

#[test]
fn an_expired_slot_wakes_its_waiter_and_its_holder_finds_out() {
    let guard = builder()
        .retry_interval(Duration::from_secs(3600))
        .build()
        .unwrap();
    assert!(!guard.expire(&key()), "there is nothing to expire");
    let lease = enter(&guard);
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key()))
    };
    assert!(guard.expire(&key()));
    let next = waiting.result().unwrap();
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    assert!(next.is_held() && !lease.is_held());
}

#[test]
fn holders_are_listed_by_slot() {
    let store = MemoryStore::new();
    let guard = |owner: &str| {
        let builder = builder().store(store.clone()).owner(owner);
        builder.build().unwrap()
    };
    let (one, two) = (guard("one"), guard("two"));
    let global = SandboxIsolationKey::global();
    let _global = two.try_enter(&global).unwrap();
    let _agent = enter(&one);
    let found = one.holders();
    let found: Vec<_> = found
        .iter()
        .map(|(slot, holder)| (slot.as_str(), holder.owner()))
        .collect();
    let (first, second) = (one.slot(&key()), one.slot(&global));
    assert_eq!(
        found,
        [
            (first.as_str(), Some("one")),
            (second.as_str(), Some("two"))
        ]
    );
}

#[test]
fn an_entry_survives_faults_that_pass() {
    let guard = guard();
    for _ in 0..3 {
        guard.store().fail_next(Fault::Transient);
    }
    assert!(guard.try_enter(&key()).unwrap().is_held());
    wait_until_free(&guard);
}

#[test]
fn a_grant_without_an_answer_is_recognised_by_its_token() {
    let guard = guard();
    guard.store().fail_next(Fault::UnknownDone);
    // Nobody else holds the slot: an entry that took another token would wait out its own lease.
    let lease = guard.try_enter_for(&key(), PATIENCE).unwrap();
    let holders = guard.holders();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].1.short_token(), lease.token().short());
    assert_eq!(lease.close(), CloseOutcome::Released);
    wait_until_free(&guard);
}

#[test]
fn an_acquire_that_was_never_made_is_made_again() {
    let guard = guard();
    guard.store().fail_next(Fault::UnknownNotDone);
    assert!(guard.try_enter_for(&key(), PATIENCE).unwrap().is_held());
    wait_until_free(&guard);
}

#[test]
fn an_entry_that_gives_up_in_doubt_leaves_the_slot_free() {
    let guard = guard();
    // No time for a second attempt; the first release in the background fails too.
    guard.store().fail_next(Fault::UnknownDone);
    guard.store().fail_next(Fault::Transient);
    assert_store_error(guard.try_enter_for(&key(), Duration::ZERO), true);
    wait_until_free(&guard);
    assert!(enter(&guard).is_held());
}

#[test]
fn an_entry_that_is_interrupted_or_closed_in_doubt_leaves_the_slot_free() {
    for close in [false, true] {
        let guard = builder().outage_tolerance(PATIENCE).build().unwrap();
        guard.store().fail_next(Fault::UnknownDone);
        for _ in 0..6 {
            guard.store().fail_next(Fault::Transient);
        }
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter(&key()))
        };
        if close {
            guard.close();
            assert!(matches!(waiting.result(), Err(GuardError::Closed { .. })));
        } else {
            waiting.interrupt();
            assert!(matches!(
                waiting.result(),
                Err(GuardError::Interrupted { .. })
            ));
        }
        wait_until_free(&guard);
    }
}

#[test]
fn a_close_that_fails_goes_on_in_the_background() {
    for fault in [Fault::Transient, Fault::UnknownDone, Fault::UnknownNotDone] {
        let guard = guard();
        let lease = enter(&guard);
        guard.store().fail_next(fault);
        assert_eq!(lease.close(), CloseOutcome::Deferred, "{fault:?}");
        assert_eq!(lease.close(), CloseOutcome::AlreadyClosed);
        wait_until_free(&guard);
    }
}

#[test]
fn a_deferred_release_is_made_before_the_last_handle_is_gone() {
    let guard = guard();
    let store = guard.store().clone();
    let lease = enter(&guard);
    store.fail_next(Fault::Transient);
    store.fail_next(Fault::Transient);
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    drop((lease, guard));
    assert!(store.is_empty(), "dropping waits for what is pending");
}

#[test]
fn a_release_that_cannot_be_made_holds_up_the_end_for_the_grace_only() {
    let grace = Duration::from_millis(100);
    let guard = builder().shutdown_grace(grace).build().unwrap();
    let store = guard.store().clone();
    let lease = enter(&guard);
    for _ in 0..1_000 {
        store.fail_next(Fault::Transient);
    }
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    drop(lease);
    let before = Instant::now();
    drop(guard);
    assert!(before.elapsed() < grace + Duration::from_secs(5));
    assert_eq!(store.len(), 1, "given up: the TTL will free it");
}

#[test]
fn a_permanent_error_is_returned_at_once() {
    let guard = guard();
    guard.store().fail_next(Fault::Permanent);
    assert_store_error(guard.try_enter(&key()), false);
    guard.store().fail_next(Fault::Permanent);
    assert_store_error(guard.try_enter_now(&key()), false);
    guard.store().fail_next(Fault::Permanent);
    assert_store_error(guard.holder(&key()), false);
    assert!(enter(&guard).is_held(), "the next one is not concerned");
}

#[test]
fn without_tolerance_the_first_failure_is_returned() {
    let guard = builder().outage_tolerance(Duration::ZERO).build().unwrap();
    guard.store().fail_next(Fault::Transient);
    assert_store_error(guard.try_enter(&key()), true);
    assert!(enter(&guard).is_held());
}

#[test]
fn an_outage_is_put_up_with_for_the_tolerance_and_ends_all_who_wait() {
    let tolerance = Duration::from_millis(300);
    let guard = builder().outage_tolerance(tolerance).build().unwrap();
    for _ in 0..1_000 {
        guard.store().fail_next(Fault::Transient);
    }
    let started = Instant::now();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter(&key()).map(drop))
        })
        .collect();
    for waiting in waiting {
        assert_store_error(waiting.result(), true);
    }
    assert!(started.elapsed() >= tolerance);
    assert!(guard.store().faults_left() > 900, "failing is backed off");
}

#[test]
fn a_renewal_that_fails_on_the_way_is_no_loss() {
    let guard = guard();
    let lease = enter(&guard);
    for fault in [Fault::Transient, Fault::UnknownDone, Fault::UnknownNotDone] {
        guard.store().fail_next(fault);
        assert_store_error(lease.renew(), true);
        assert!(lease.is_held(), "{fault:?}");
    }
    assert!(lease.renew().is_ok());
}

#[test]
fn guards_with_stores_of_their_own_share_nothing() {
    let (one, two) = (guard(), Arc::new(guard()));
    let _lease = enter(&one);
    assert!(enter(&two).is_held());
}

#[test]
fn nothing_is_left_in_the_store_by_entries_that_fail_or_succeed() {
    let guard = guard();
    together(8, |number| {
        for turn in 0..20 {
            if (turn + number) % 5 == 0 {
                guard.store().fail_next(Fault::UnknownDone);
            }
            // Some give up in doubt, and leave a release to the background.
            drop(guard.try_enter_for(&key(), Duration::from_millis(turn as u64)));
        }
    });
    eventually("everything is released", || guard.store().is_empty());
}
