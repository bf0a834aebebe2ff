//! Other programs on our slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{CloseOutcome, GuardError};

use crate::backend::Backend;
use crate::fixture::{Fixture, PATIENCE, assert_free, assert_held, enter, key};
use crate::waiting::Waiting;

/// A token of any shape, as another program might write it.
const TOKEN: &str = "holder #1: not a token of ours";

/// A foreign holder with a TTL is waited for, and its expiry lets us in.
pub(crate) fn a_foreign_holder_keeps_us_out_until_its_ttl(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let slot = fixture.slot(&key("a"));
    let ttl = Duration::from_millis(400);
    let before = Instant::now();
    fixture.foreign().set(&slot, TOKEN, Some(ttl));
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    assert!(before.elapsed() >= ttl - Duration::from_millis(2));
    assert!(fixture.carries(&slot, lease.token().as_str()));
}

/// A foreign holder without a TTL is waited for as long as it takes.
pub(crate) fn a_foreign_holder_without_ttl_keeps_us_out_until_it_deletes(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, TOKEN, None);
    assert_held(&guard, &key("a"));
    let outcome = guard.try_enter_for(&key("a"), Duration::from_millis(100));
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
    assert!(fixture.carries(&slot, TOKEN), "our waits leave it alone");

    let waiting = Waiting::start(move || guard.try_enter(&key("a")));
    fixture.foreign().delete(&slot);
    assert!(waiting.result().unwrap().is_held());
}

/// An operator's deletion of our lease lets a waiter of the same process in.
pub(crate) fn a_foreign_delete_lets_the_next_one_in(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let lease = enter(&guard, &key("a"));
    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter(&key("a")))
    };
    fixture.foreign().delete(&fixture.slot(&key("a")));
    let next = waiting.result().unwrap();
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(next.renew().is_ok());
}

/// Data that is no token ends every entry with a permanent error, and nobody deletes it.
pub(crate) fn foreign_data_is_a_permanent_error_and_stays(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let slot = fixture.slot(&key("a"));
    fixture.foreign().plant_data(&slot);
    for outcome in [
        guard.try_enter(&key("a")).map(drop),
        guard.try_enter_now(&key("a")).map(drop),
        guard.holder(&key("a")).map(drop),
    ] {
        match outcome {
            Err(error @ GuardError::Store { .. }) => {
                assert!(!error.is_transient());
                assert!(error.to_string().contains("agent:a"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(fixture.foreign().carries_data(&slot));
    fixture.foreign().delete(&slot);
    assert_free(&guard, &key("a"));
}

/// Data put over our lease is no token of ours: the close says so at once and leaves it.
pub(crate) fn closing_over_foreign_data_leaves_it_there(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let slot = fixture.slot(&key("a"));
    let lease = enter(&guard, &key("a"));
    fixture.foreign().plant_data(&slot);
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(fixture.foreign().carries_data(&slot));
    fixture.foreign().delete(&slot);
}
