//! How long an entry waits, and in which order waiters enter.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_core::GuardError;

use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, PATIENCE, assert_free, assert_held, enter, key};
use crate::measure::Times;
use crate::waiting::{Waiting, together};

/// The numbers of waiters in the order in which they entered.
type Order = Arc<Mutex<Vec<u32>>>;

/// Starts a waiter that writes down its number when it enters.
fn queue(guard: &Guard, order: &Order, number: u32) -> Waiting<Result<(), GuardError>> {
    let (guard, order) = (Arc::clone(guard), Arc::clone(order));
    Waiting::start(move || {
        let _lease = guard.try_enter(&key("a"))?;
        order.lock().unwrap().push(number);
        Ok(())
    })
}

/// Threads of one process enter in the order in which they came.
pub(crate) fn waiters_enter_first_come_first_served(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let order = Order::default();
    let lease = enter(&guard, &key("a"));
    let waiters: Vec<_> = (0..8).map(|number| queue(&guard, &order, number)).collect();
    drop(lease);
    for waiter in waiters {
        waiter.result().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

/// Waiters in front, in the middle and at the end give up; the others keep their order.
pub(crate) fn a_waiter_that_times_out_leaves_without_disturbing(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let order = Order::default();
    let lease = enter(&guard, &key("a"));
    let give_up = || {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter_for(&key("a"), Duration::from_millis(500)))
    };
    let mut waiters = Vec::new();
    let mut leavers = vec![give_up()];
    for number in 0..3 {
        waiters.push(queue(&guard, &order, number));
        leavers.push(give_up());
    }
    for leaver in leavers {
        assert!(matches!(leaver.result(), Err(GuardError::TimedOut { .. })));
    }
    drop(lease);
    for waiter in waiters {
        waiter.result().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
}

/// The same with waiters that are interrupted.
pub(crate) fn a_waiter_that_is_interrupted_leaves_without_disturbing(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let order = Order::default();
    let lease = enter(&guard, &key("a"));
    let waiters: Vec<_> = (0..7).map(|number| queue(&guard, &order, number)).collect();
    for leaver in [3, 6, 0] {
        waiters[leaver].interrupt();
    }
    for leaver in [0, 3, 6] {
        crate::eventually("the interrupted one leaves", || waiters[leaver].is_over());
    }
    drop(lease);
    for (number, waiter) in waiters.into_iter().enumerate() {
        match waiter.result() {
            Ok(()) => assert!(![0, 3, 6].contains(&number)),
            Err(error) => {
                assert!(matches!(error, GuardError::Interrupted { .. }), "{error}");
                assert!([0, 3, 6].contains(&number));
            }
        }
    }
    assert_eq!(*order.lock().unwrap(), [1, 2, 4, 5]);
}

/// A wait with a timeout ends after it, not before, and says how long it was.
pub(crate) fn a_timeout_ends_the_wait(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let _lease = enter(&guard, &key("a"));
    let timeout = Duration::from_millis(150);
    let before = Instant::now();
    match guard.try_enter_for(&key("a"), timeout) {
        Err(GuardError::TimedOut { waited, slot }) => {
            assert!(
                waited >= timeout && waited <= before.elapsed(),
                "{waited:?}"
            );
            assert!(slot.ends_with("agent:a"), "{slot}");
        }
        other => panic!("{other:?}"),
    }
    // The bound of the promise, the operation timeout, and room for a noisy machine.
    assert!(before.elapsed() < timeout + Duration::from_secs(4));
}

/// A wait with a deadline ends at it; one that is met by the holder's close ends in a lease.
pub(crate) fn a_deadline_ends_the_wait(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let deadline = Instant::now() + Duration::from_millis(150);
    let outcome = guard.try_enter_until(&key("a"), deadline);
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
    assert!(Instant::now() >= deadline);

    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter_until(&key("a"), Instant::now() + PATIENCE))
    };
    lease.close();
    assert!(waiting.result().unwrap().is_held());
}

/// A deadline that has passed still enters a free slot, and does not wait for a held one.
pub(crate) fn a_past_deadline_makes_one_attempt(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let past = Instant::now();
    thread::sleep(Duration::from_millis(2));
    let lease = guard.try_enter_until(&key("a"), past).unwrap();
    assert!(lease.is_held());
    let outcome = guard.try_enter_until(&key("a"), past);
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
}

/// No time at all is one attempt.
pub(crate) fn a_zero_timeout_makes_one_attempt(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = guard.try_enter_for(&key("a"), Duration::ZERO).unwrap();
    assert!(lease.is_held());
    let outcome = guard.try_enter_for(&key("a"), Duration::ZERO);
    assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
}

/// A time that no clock can show is for ever.
pub(crate) fn a_huge_timeout_waits_and_does_not_panic(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    for timeout in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
        let lease = guard.try_enter_for(&key("a"), timeout).unwrap();
        let waiting = {
            let guard = Arc::clone(&guard);
            Waiting::start(move || guard.try_enter_for(&key("a"), timeout))
        };
        lease.close();
        assert!(waiting.result().unwrap().is_held());
    }
}

/// Busy is an answer of `try_enter_now`, not an error.
pub(crate) fn enter_now_takes_a_free_slot_and_does_not_wait_for_a_held_one(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (here, there) = (fixture.guard(), fixture.guard());
    let lease = enter(&here, &key("a"));
    assert_held(&here, &key("a"));
    assert_held(&there, &key("a"));
    drop(lease);
    assert_free(&there, &key("a"));
}

/// A waiter of another guard, as of another process, gets in when the slot is free.
pub(crate) fn a_waiter_enters_once_another_guard_closes(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (here, there) = (fixture.guard(), fixture.guard());
    let lease = enter(&here, &key("a"));
    let waiting = Waiting::start(move || there.try_enter(&key("a")));
    assert!(!waiting.is_over());
    lease.close();
    assert!(waiting.result().unwrap().is_held());
}

/// When a lease of the same process is closed, the next in the queue goes at once: no interval, however
/// long, and no spacing of looks stands between two turns.
pub(crate) fn turns_inside_the_process_cost_no_interval(backend: &dyn Backend) {
    const TURNS: u32 = 50;
    let (work, interval) = (Duration::from_millis(1), Duration::from_secs(5));
    let guard = Fixture::new(backend).guard_with(|config| config.retry_interval = interval);
    let entered = Mutex::new(Vec::new());
    together(3, |_| {
        for _ in 0..TURNS {
            let _lease = guard.try_enter(&key("a")).unwrap();
            entered.lock().unwrap().push(Instant::now());
            // Long enough for the next one to find the slot held.
            thread::sleep(work);
        }
    });
    let entered = entered.into_inner().unwrap();
    let turns: Times = entered.windows(2).map(|two| two[1] - two[0]).collect();
    // A turn takes a millisecond more than its work; a noisy machine gets several times that.
    assert!(turns.median() < work + Duration::from_millis(10), "{turns}");
    assert!(turns.percentile(100) < interval, "{turns}");
}
