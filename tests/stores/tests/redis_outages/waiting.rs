//! Entries that wait while the store is gone.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{GuardObserver, OutageEvent};
use guard_redis::{GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease};

use crate::{Gone, SLACK, Scene, assert_transient, builder, each_way, key};

const WAITERS: usize = 50;
const SLOTS: usize = 10;
const OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const TOLERANCE: Duration = Duration::from_secs(2);

/// Tells when outages begin and end.
struct Outages(Mutex<Sender<(bool, Instant)>>);

impl GuardObserver for Outages {
    fn on_outage(&self, event: &OutageEvent) {
        let _ = self
            .0
            .lock()
            .unwrap()
            .send((event.is_over(), Instant::now()));
    }
}

fn slots() -> impl Iterator<Item = String> + Clone {
    (0..SLOTS).map(|number| number.to_string())
}

type Outcome = Result<SandboxLease, GuardError>;

/// Fifty threads that wait for ten slots, which a stranger holds. They tell when they returned.
fn waiters(scene: &Scene, guard: &RedisSandboxExecutionGuard) -> Vec<Waiting<(Outcome, Instant)>> {
    for slot in slots() {
        let slot = guard.slot(&key(&slot));
        assert_eq!(scene.server.cli(&["SET", slot.as_str(), "foreign"]), "OK");
    }
    let keys = slots().cycle().take(WAITERS);
    keys.map(|value| {
        let guard = guard.clone();
        Waiting::start(move || (guard.try_enter(&key(&value)), Instant::now()))
    })
    .collect()
}

#[test]
fn fifty_waiters_sit_out_five_seconds_without_a_store() {
    each_way(|scene, gone| {
        let guard = builder(&scene.proxy.url()).build().unwrap();
        let waiters = waiters(scene, &guard);
        scene.begin(gone);
        thread::sleep(Duration::from_secs(5));
        assert!(waiters.iter().all(|waiter| !waiter.is_over()), "{gone:?}");
        scene.end(gone);
        for slot in slots() {
            scene.server.cli(&["DEL", guard.slot(&key(&slot)).as_str()]);
        }
        for waiter in waiters {
            let (outcome, _) = waiter.result();
            assert!(outcome.unwrap().is_held(), "{gone:?}");
        }
    });
}

#[test]
fn an_outage_that_lasts_too_long_ends_every_wait_in_time() {
    each_way(|scene, gone| {
        let (tell, told) = mpsc::channel();
        let guard = builder(&scene.proxy.url())
            .operation_timeout(OPERATION_TIMEOUT)
            .outage_tolerance(TOLERANCE)
            .observer(Arc::new(Outages(Mutex::new(tell))))
            .build()
            .unwrap();
        let waiters = waiters(scene, &guard);
        let before = Instant::now();
        scene.begin(gone);
        let (over, began) = told.recv_timeout(PATIENCE).unwrap();
        // A waiter that is told of changes looks every two seconds.
        assert!(!over && began - before < Duration::from_secs(2) + OPERATION_TIMEOUT + SLACK);
        for waiter in waiters {
            let (outcome, returned) = waiter.result();
            assert_transient(outcome);
            let (took, of_outage) = (returned - before, returned - began);
            // Each sees the outage at its own next look, and tolerates it from when the first did.
            let bound = Duration::from_secs(2) + TOLERANCE + OPERATION_TIMEOUT + SLACK;
            assert!(
                of_outage > TOLERANCE - SLACK && took < bound,
                "{gone:?}: {took:?}"
            );
        }
        // Whoever comes later makes one attempt.
        let before = Instant::now();
        assert_transient(guard.try_enter(&key("later")));
        assert!(before.elapsed() < OPERATION_TIMEOUT + SLACK);
        scene.end(gone);
        eventually("an entry succeeds again", || {
            guard.try_enter(&key("later")).is_ok()
        });
        let (over, _) = told.recv_timeout(PATIENCE).unwrap();
        assert!(over, "the outage is over once");
    });
}

/// An outage ends with any answer of the store, not only with one to an entry.
#[test]
fn an_old_outage_that_other_operations_saw_end_does_not_count() {
    let scene = Scene::new();
    let guard = builder(&scene.proxy.url())
        .operation_timeout(OPERATION_TIMEOUT)
        .outage_tolerance(TOLERANCE)
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("held")).unwrap();
    scene.begin(Gone::Refused);
    assert_transient(guard.try_enter_now(&key("a")));
    scene.end(Gone::Refused);
    lease.renew().unwrap();
    assert!(guard.holder(&key("held")).unwrap().is_some());
    thread::sleep(TOLERANCE + Duration::from_millis(500));
    lease.renew().unwrap();

    // A second failure, much later, is the first of another outage.
    scene.begin(Gone::Refused);
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE))
    };
    thread::sleep(Duration::from_millis(200));
    scene.end(Gone::Refused);
    assert!(waiting.result().unwrap().is_held());
}

/// Nobody asked for a long time, so nobody knows whether the store was there.
#[test]
fn two_failures_far_apart_are_waited_out_as_two_outages() {
    let scene = Scene::new();
    let guard = builder(&scene.proxy.url())
        .outage_tolerance(TOLERANCE)
        .build()
        .unwrap();
    scene.begin(Gone::Refused);
    assert_transient(guard.try_enter_now(&key("a")));
    scene.end(Gone::Refused);
    drop(guard.try_enter(&key("a")).unwrap());
    thread::sleep(TOLERANCE);
    scene.begin(Gone::Refused);
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE))
    };
    thread::sleep(Duration::from_millis(200));
    scene.end(Gone::Refused);
    assert!(waiting.result().unwrap().is_held());
}
