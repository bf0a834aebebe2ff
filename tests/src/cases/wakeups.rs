//! Waiters are woken at once, whoever frees the slot. They would look by themselves only after minutes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{GuardError, SandboxLease};

use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, PATIENCE, enter, key};
use crate::waiting::{A_WHILE, Waiting};

/// At once, on a noisy machine.
const SOON: Duration = Duration::from_secs(5);
const TOKEN: &str = "a foreign holder";

/// A guard whose waiters do not look by themselves for minutes.
fn guard(fixture: &Fixture<'_>) -> Guard {
    fixture.guard_with(|config| config.retry_interval = 4 * PATIENCE)
}

fn wait(guard: &Guard) -> Waiting<Result<SandboxLease, GuardError>> {
    let guard = Arc::clone(guard);
    let waiting = Waiting::start(move || guard.try_enter(&key("a")));
    // Not only for the store's first answer.
    thread::sleep(A_WHILE);
    assert!(!waiting.is_over());
    waiting
}

#[track_caller]
fn is_in_soon(waiting: Waiting<Result<SandboxLease, GuardError>>) -> SandboxLease {
    let before = Instant::now();
    let lease = waiting.result().unwrap();
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
    assert!(lease.is_held());
    lease
}

/// Another guard, as of another process, closes: again and again in turn.
pub(crate) fn a_close_of_another_guard_wakes_a_waiter(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guards = [guard(&fixture), guard(&fixture)];
    let mut lease = enter(&guards[0], &key("a"));
    for turn in 1..6 {
        let waiting = wait(&guards[turn % 2]);
        lease.close();
        lease = is_in_soon(waiting);
    }
}

/// Of several guards that wait, each is in after the one before it.
pub(crate) fn every_guard_that_waits_gets_its_turn(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let holding = guard(&fixture);
    let lease = enter(&holding, &key("a"));
    let guards = [(); 4].map(|()| guard(&fixture));
    let waiting: Vec<_> = guards
        .iter()
        .map(|guard| {
            let guard = Arc::clone(guard);
            Waiting::start(move || guard.try_enter(&key("a")).map(drop))
        })
        .collect();
    thread::sleep(A_WHILE);
    let before = Instant::now();
    lease.close();
    for waiting in waiting {
        waiting.result().unwrap();
    }
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
}

/// A foreign program deletes its key and tells nobody.
pub(crate) fn a_foreign_delete_wakes_a_waiter(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = guard(&fixture);
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, TOKEN, None);
    let waiting = wait(&guard);
    fixture.foreign().delete(&slot);
    drop(is_in_soon(waiting));
}

/// A foreign program dies, and its TTL passes.
pub(crate) fn the_expiry_of_a_foreign_holder_ends_the_wait(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = guard(&fixture);
    let slot = fixture.slot(&key("a"));
    fixture
        .foreign()
        .set(&slot, TOKEN, Some(Duration::from_millis(500)));
    drop(is_in_soon(wait(&guard)));
}

/// A foreign program overwrites the slot; the waiter goes on waiting, and is woken by what comes after.
pub(crate) fn a_waiter_sees_through_a_change_of_holders(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = guard(&fixture);
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, TOKEN, None);
    let waiting = wait(&guard);
    for _ in 0..3 {
        fixture.foreign().set(&slot, TOKEN, None);
        thread::sleep(A_WHILE);
        assert!(!waiting.is_over());
    }
    fixture.foreign().delete(&slot);
    drop(is_in_soon(waiting));
}

/// Our own lease is deleted by an operator: the next thread of the process is woken as well.
pub(crate) fn a_deleted_lease_of_the_same_guard_wakes_the_next_one(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = guard(&fixture);
    let _lease = enter(&guard, &key("a"));
    let waiting = wait(&guard);
    fixture.foreign().delete(&fixture.slot(&key("a")));
    drop(is_in_soon(waiting));
}

/// The waiter in front gives up; the one that moves up in its place is woken in its stead.
pub(crate) fn who_moves_to_the_front_is_woken_too(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = guard(&fixture);
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, TOKEN, None);
    let (front, next) = (wait(&guard), wait(&guard));
    front.interrupt();
    assert!(front.result().is_err());
    thread::sleep(A_WHILE);
    fixture.foreign().delete(&slot);
    drop(is_in_soon(next));
}
