//! The end of a guard's service.

use std::sync::Arc;

use guard_core::{CloseOutcome, GuardError};

use super::counting::counting;
use crate::backend::Backend;
use crate::fixture::{Fixture, assert_free, assert_held, enter, key};
use crate::waiting::Waiting;

/// Those in front and those behind, on every slot, end with `Closed`.
pub(crate) fn closing_the_guard_wakes_all_waiters(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (guard, other) = (fixture.guard(), fixture.guard());
    let _leases = ["a", "b"].map(|value| enter(&other, &key(value)));
    let waiting: Vec<_> = ["a", "a", "a", "b", "b"]
        .iter()
        .map(|value| {
            let guard = Arc::clone(&guard);
            Waiting::start(move || guard.try_enter(&key(value)))
        })
        .collect();
    guard.close();
    for waiting in waiting {
        let outcome = waiting.result();
        assert!(
            matches!(outcome, Err(GuardError::Closed { .. })),
            "{outcome:?}"
        );
    }
}

/// Every way in is shut, to free slots too; closing again changes nothing.
pub(crate) fn a_closed_guard_takes_no_entries(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (guard, counts) = counting(&fixture, |_| {});
    guard.close();
    guard.close();
    let closed = |outcome| matches!(outcome, Err(GuardError::Closed { .. }));
    assert!(closed(guard.try_enter(&key("a")).map(drop)));
    assert!(closed(guard.try_enter_now(&key("a")).map(drop)));
    assert!(closed(
        guard.try_enter_for(&key("a"), crate::PATIENCE).map(drop)
    ));
    assert_eq!(counts.asked(), 0, "the store is not even asked");
    assert_eq!(fixture.left(&[key("a")]), [""; 0]);
}

/// A lease lives on after its guard was closed: held, renewable, released by its own close.
pub(crate) fn leases_in_hand_stay_good_when_the_guard_closes(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (guard, other) = (fixture.guard(), fixture.guard());
    let lease = enter(&guard, &key("a"));
    guard.close();
    assert!(lease.is_held());
    lease.renew().unwrap();
    assert_held(&other, &key("a"));
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_free(&other, &key("a"));
}

/// Other guards on the same slots go on.
pub(crate) fn closing_one_guard_leaves_the_others_open(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (guard, other) = (fixture.guard(), fixture.guard());
    let lease = enter(&other, &key("a"));
    let waiting = {
        let other = Arc::clone(&other);
        Waiting::start(move || other.try_enter(&key("a")))
    };
    guard.close();
    lease.close();
    assert!(waiting.result().unwrap().is_held());
}
