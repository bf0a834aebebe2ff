//! Interrupts: before, during and after a wait, and never in the wrong call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{GuardError, Interrupt, SandboxLease, Wait};

use super::counting::counting;
use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, assert_free, enter, key};
use crate::waiting::Waiting;

type Outcome = Result<SandboxLease, GuardError>;

/// Starts a wait that `handle` can end.
fn wait(guard: &Guard, handle: &Interrupt) -> Waiting<Outcome> {
    let (guard, handle) = (Arc::clone(guard), handle.clone());
    Waiting::start(move || guard.enter(&key("a"), Wait::forever().interruptible_by(&handle)))
}

#[track_caller]
fn assert_interrupted<T>(outcome: Result<T, GuardError>) {
    match outcome {
        Err(GuardError::Interrupted { slot }) => assert!(slot.ends_with("agent:a"), "{slot}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("entered"),
    }
}

/// An interrupt that came before the call ends it, though the slot is free, and the slot stays so.
pub(crate) fn a_pending_interrupt_is_taken_before_a_free_slot_is_touched(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (guard, counts) = counting(&fixture, |_| {});
    let handle = Interrupt::new();
    handle.interrupt();
    assert_interrupted(guard.enter(&key("a"), Wait::forever().interruptible_by(&handle)));
    Interrupt::current().interrupt();
    assert_interrupted(guard.try_enter_for(&key("a"), Duration::ZERO));
    assert_eq!(counts.asked(), 0, "the store is not even asked");
    // Not even a fence counter, which a grant would have left.
    assert_eq!(fixture.left(&[key("a")]), [""; 0]);
    assert_free(&guard, &key("a"));
    assert!(counts.asked() > 0, "what is asked is counted");
}

/// A call that never waits reports a pending interrupt as well.
pub(crate) fn enter_now_takes_a_pending_interrupt_too(backend: &dyn Backend) {
    let (guard, counts) = counting(&Fixture::new(backend), |_| {});
    Interrupt::current().interrupt();
    assert_interrupted(guard.try_enter_now(&key("a")));
    assert!(!Interrupt::current().is_interrupted());
    assert_eq!(counts.asked(), 0, "the store is not even asked");
    assert_free(&guard, &key("a"));
}

/// The one who waits for the store's holder can be interrupted.
pub(crate) fn an_interrupt_ends_a_wait_in_front(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let handle = Interrupt::new();
    let waiting = wait(&guard, &handle);
    handle.interrupt();
    assert_interrupted(waiting.result());
    assert!(!handle.is_interrupted() && lease.is_held());
}

/// And so can those who wait for their turn.
pub(crate) fn an_interrupt_ends_a_wait_in_the_queue(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let (front, back) = (Interrupt::new(), Interrupt::new());
    let in_front = wait(&guard, &front);
    let in_back = wait(&guard, &back);
    back.interrupt();
    assert_interrupted(in_back.result());
    assert!(!in_front.is_over());
    lease.close();
    assert!(in_front.result().unwrap().is_held());
}

/// A wait that was given no handle, and one that was, end by the waiting thread's own.
pub(crate) fn a_threads_own_interrupt_ends_its_wait(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let _lease = enter(&guard, &key("a"));
    let plain = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || {
            let outcome = guard.try_enter(&key("a"));
            assert!(!Interrupt::current().is_interrupted(), "it is consumed");
            outcome
        })
    };
    plain.interrupt();
    assert_interrupted(plain.result());

    let handle = Interrupt::new();
    let both = wait(&guard, &handle);
    both.interrupt();
    assert_interrupted(both.result());
    assert!(!handle.is_interrupted());
}

/// All that observe a handle end by one interrupt, on whichever slots and guards; later ones do not.
pub(crate) fn one_interrupt_ends_every_wait_that_observes_it(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (here, there) = (fixture.guard(), fixture.guard());
    let lease = enter(&here, &key("a"));
    let handle = Interrupt::new();
    let ended: Vec<_> = [&here, &here, &here, &there, &there]
        .map(|guard| wait(guard, &handle))
        .into();
    let stays = wait(&here, &Interrupt::new());
    handle.interrupt();
    for waiting in ended {
        assert_interrupted(waiting.result());
    }
    assert!(!handle.is_interrupted());
    let later = wait(&here, &handle);
    lease.close();
    stays.result().unwrap().close();
    later.result().unwrap().close();
}

/// An interrupt that no wait took is kept for the next one; the lease in hand is not harmed.
pub(crate) fn an_interrupt_after_the_grant_stays_pending(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let handle = Interrupt::new();
    let wait = Wait::forever().interruptible_by(&handle);
    let lease = guard.enter(&key("a"), wait).unwrap();
    handle.interrupt();
    assert!(handle.is_interrupted() && lease.is_held() && lease.renew().is_ok());
    lease.close();
    assert!(handle.is_interrupted());
    assert_interrupted(guard.enter(&key("a"), wait));
    assert!(guard.enter(&key("a"), wait).is_ok());
}

/// The wait that reports an interrupt consumes it, however often it was raised.
pub(crate) fn an_interrupt_is_reported_once(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let handle = Interrupt::new();
    let waiting = {
        let (guard, handle) = (Arc::clone(&guard), handle.clone());
        Waiting::start(move || {
            let wait = Wait::forever().interruptible_by(&handle);
            assert_interrupted(guard.enter(&key("a"), wait));
            // The next call of the same thread waits and enters.
            guard.enter(&key("a"), wait)
        })
    };
    handle.interrupt();
    lease.close();
    assert!(waiting.result().unwrap().is_held());

    let twice = Interrupt::new();
    twice.interrupt();
    twice.interrupt();
    let wait = Wait::not_at_all().interruptible_by(&twice);
    assert_interrupted(guard.enter(&key("a"), wait));
    assert!(!twice.is_interrupted());
}

/// Of two pending interrupts the passed handle's is reported; the thread's own waits for the next call.
pub(crate) fn with_both_pending_the_passed_handle_is_reported(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let (handle, own) = (Interrupt::new(), Interrupt::current());
    handle.interrupt();
    own.interrupt();
    let wait = Wait::forever().interruptible_by(&handle);
    assert_interrupted(guard.enter(&key("a"), wait));
    assert!(!handle.is_interrupted() && own.is_interrupted());
    assert_interrupted(guard.enter(&key("a"), wait));
    assert!(!own.is_interrupted());
    assert!(guard.enter(&key("a"), wait).is_ok());
}

/// Half of all waits end within 10 ms of their interrupt; a noisy machine gets ten times that.
pub(crate) fn an_interrupt_ends_a_wait_promptly(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let _lease = enter(&guard, &key("a"));
    let mut delays: Vec<_> = (0..15)
        .map(|_| {
            let handle = Interrupt::new();
            let (guard, observed) = (Arc::clone(&guard), handle.clone());
            let waiting = Waiting::start(move || {
                let wait = Wait::forever().interruptible_by(&observed);
                assert_interrupted(guard.enter(&key("a"), wait));
                Instant::now()
            });
            let interrupted = Instant::now();
            handle.interrupt();
            waiting.result().saturating_duration_since(interrupted)
        })
        .collect();
    delays.sort();
    assert!(delays[7] < Duration::from_millis(100), "{delays:?}");
}
