//! The ways in which a lease ends by its holder's will, and what each leaves of the slot.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use guard_core::{CloseOutcome, SandboxExecutionGuardExt, Wait};

use crate::backend::Backend;
use crate::fixture::{Fixture, assert_free, assert_held, enter, key};
use crate::waiting::together;

/// The slot is free for every guard when `close` returns.
pub(crate) fn a_closed_lease_frees_its_slot_at_once(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (here, there) = (fixture.guard(), fixture.guard());
    let lease = enter(&here, &key("a"));
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert!(!lease.is_held());
    assert_free(&there, &key("a"));
}

/// Further closes do nothing, also when the slot is somebody else's by then.
pub(crate) fn close_is_idempotent(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    assert_eq!(lease.close(), CloseOutcome::Released);
    let next = enter(&guard, &key("a"));
    assert_eq!(lease.close(), CloseOutcome::AlreadyClosed);
    drop(lease);
    assert!(next.renew().is_ok());
    assert_held(&guard, &key("a"));
}

/// A lease may be closed where it was not entered.
pub(crate) fn close_works_from_another_thread(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let outcome = thread::scope(|scope| scope.spawn(|| lease.close()).join().unwrap());
    assert_eq!(outcome, CloseOutcome::Released);
    assert_free(&guard, &key("a"));
}

/// Of several threads that close a lease at once, one releases and the others find it closed.
pub(crate) fn of_concurrent_closes_exactly_one_releases(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    for _ in 0..20 {
        let lease = enter(&guard, &key("a"));
        let outcomes = together(4, |_| lease.close());
        let count = |wanted| {
            outcomes
                .iter()
                .filter(|outcome| **outcome == wanted)
                .count()
        };
        assert_eq!(count(CloseOutcome::Released), 1, "{outcomes:?}");
        assert_eq!(count(CloseOutcome::AlreadyClosed), 3, "{outcomes:?}");
    }
}

/// A lease that goes out of scope frees its slot.
pub(crate) fn drop_closes(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    drop(enter(&guard, &key("a")));
    assert_free(&guard, &key("a"));
}

/// A panic that passes a lease frees its slot.
pub(crate) fn unwinding_closes(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _lease = enter(&guard, &key("a"));
        panic!("on purpose");
    }));
    assert!(panic.is_err());
    assert_free(&guard, &key("a"));
}

/// `run` closes when its work is done, whatever the work answers.
pub(crate) fn run_closes_on_return_and_error(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let wait = Wait::not_at_all();
    let answer = guard.run(&key("a"), wait, |lease| {
        assert!(lease.is_held());
        assert_held(&guard, &key("a"));
        42
    });
    assert_eq!(answer.unwrap(), 42);
    assert_free(&guard, &key("a"));

    let answer: Result<(), &str> = guard.run(&key("a"), wait, |_| Err("broken")).unwrap();
    assert_eq!(answer, Err("broken"));
    assert_free(&guard, &key("a"));
}

/// `run` closes when its work panics.
pub(crate) fn run_closes_on_a_panic(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        guard.run(&key("a"), Wait::not_at_all(), |_| panic!("on purpose"))
    }));
    assert!(panic.is_err());
    assert_free(&guard, &key("a"));
}

/// Whoever replaced our token keeps the slot when we close.
pub(crate) fn a_foreign_token_is_not_deleted_by_our_close(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let lease = enter(&guard, &key("a"));
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, "a foreign token", None);
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(fixture.carries(&slot, "a foreign token"));
    fixture.foreign().delete(&slot);
}

/// An operator's deletion does not make a close fail.
pub(crate) fn closing_a_deleted_slot_answers_already_gone(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let lease = enter(&guard, &key("a"));
    fixture.foreign().delete(&fixture.slot(&key("a")));
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert_eq!(lease.close(), CloseOutcome::AlreadyClosed);
}
