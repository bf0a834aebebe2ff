//! Hand-overs whose outcome is unknown, or that fail, on the in-memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_memory::{
    CloseOutcome, Fault, GuardError, IsolationScope, MemorySandboxExecutionGuard, MemoryStore,
    SandboxExecutionGuard, SandboxIsolationKey, SandboxLease,
};
use guard_store_tests::random::Random;

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap()
}

/// Nobody looks by itself for a long time: who is forgotten shows.
fn guard(store: &MemoryStore) -> Arc<MemorySandboxExecutionGuard> {
    let builder = MemorySandboxExecutionGuard::builder().store(store.clone());
    Arc::new(builder.retry_interval(4 * PATIENCE).build().unwrap())
}

fn wait(guard: &Arc<MemorySandboxExecutionGuard>) -> Waiting<Result<SandboxLease, GuardError>> {
    let guard = Arc::clone(guard);
    Waiting::start(move || guard.try_enter(&key()))
}

/// The hand-over meets `fault`, and whoever comes next in the store the others.
fn a_hand_over_that_meets(faults: &[Fault], outcome: CloseOutcome) {
    let store = MemoryStore::new();
    let guard = guard(&store);
    let lease = guard.try_enter(&key()).unwrap();
    let (first, second) = (wait(&guard), wait(&guard));
    for fault in faults {
        store.fail_next(*fault);
    }
    assert_eq!(lease.close(), outcome);
    let first = first.result().unwrap();
    assert!(first.is_held());
    assert!(
        matches!(first.renew(), Ok(())),
        "{first:?}, {:?}",
        store.holders()
    );
    assert!(!second.is_over());
    first.close();
    second.result().unwrap().close();
    eventually("nothing stays behind", || store.is_empty());
    assert_eq!(store.faults_left(), 0);
}

#[test]
fn a_hand_over_that_happened_without_an_answer_reaches_its_receiver() {
    a_hand_over_that_meets(&[Fault::UnknownDone], CloseOutcome::Deferred);
}

#[test]
fn a_hand_over_that_did_not_happen_frees_the_slot_for_its_receiver() {
    a_hand_over_that_meets(&[Fault::UnknownNotDone], CloseOutcome::Deferred);
}

#[test]
fn a_hand_over_that_fails_is_a_release() {
    a_hand_over_that_meets(&[Fault::Transient], CloseOutcome::Released);
    a_hand_over_that_meets(&[Fault::Permanent], CloseOutcome::Released);
}

#[test]
fn failures_after_it_lose_nothing_either() {
    for second in [Fault::Transient, Fault::UnknownDone, Fault::UnknownNotDone] {
        for first in [Fault::UnknownDone, Fault::UnknownNotDone] {
            a_hand_over_that_meets(&[first, second], CloseOutcome::Deferred);
        }
        a_hand_over_that_meets(&[Fault::Transient, second], CloseOutcome::Deferred);
    }
}

#[test]
fn a_receiver_that_is_interrupted_after_an_unknown_hand_over_leaves_a_free_slot() {
    for fault in [Fault::UnknownDone, Fault::UnknownNotDone] {
        for _ in 0..50 {
            let store = MemoryStore::new();
            let guard = guard(&store);
            let lease = guard.try_enter(&key()).unwrap();
            let (first, second) = (wait(&guard), wait(&guard));
            store.fail_next(fault);
            assert_eq!(lease.close(), CloseOutcome::Deferred);
            first.interrupt();
            match first.result() {
                Ok(lease) => assert!(lease.is_held()),
                Err(error) => assert!(matches!(error, GuardError::Interrupted { .. }), "{error}"),
            }
            second.result().unwrap().close();
            eventually("nothing stays behind", || store.is_empty());
        }
    }
}

#[test]
fn random_failures_of_hand_overs_lose_no_slot() {
    let mut random = Random::new(Random::seed("GUARD_STORM_SEED"));
    for _ in 0..60 {
        let store = MemoryStore::new();
        let guard = guard(&store);
        let lease = guard.try_enter(&key()).unwrap();
        let waiting: Vec<_> = (0..3).map(|_| wait(&guard)).collect();
        for _ in 0..=random.below(4) {
            let faults = [Fault::Transient, Fault::UnknownDone, Fault::UnknownNotDone];
            store.fail_next(faults[random.below(3) as usize]);
        }
        let interrupted = random.below(4) as usize;
        if let Some(waiting) = waiting.get(interrupted) {
            waiting.interrupt();
        }
        lease.close();
        for waiting in waiting {
            match waiting.result() {
                Ok(lease) => assert!(lease.is_held()),
                Err(error) => assert!(matches!(error, GuardError::Interrupted { .. }), "{error}"),
            }
        }
        // What the last close could not release yet is released in the background.
        eventually("nothing stays behind", || store.is_empty());
        assert!(guard.try_enter_for(&key(), Duration::from_secs(5)).is_ok());
    }
}
