//! Closes and ends of guards while the store is gone.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::eventually;
use guard_redis::{CloseOutcome, SandboxExecutionGuard};

use crate::{Gone, SLACK, Scene, builder, each_way, key};

const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

#[test]
fn a_close_without_a_store_returns_in_time_and_is_made_good_long_before_the_ttl() {
    each_way(|scene, gone| {
        let guard = builder(&scene.proxy.url())
            .operation_timeout(OPERATION_TIMEOUT)
            .build()
            .unwrap();
        let leases: Vec<_> = (0..5)
            .map(|number| guard.try_enter(&key(&number.to_string())).unwrap())
            .collect();
        scene.begin(gone);
        for lease in &leases {
            let before = Instant::now();
            assert_eq!(lease.close(), CloseOutcome::Deferred, "{gone:?}");
            let took = before.elapsed();
            assert!(took < OPERATION_TIMEOUT + SLACK, "{gone:?}: {took:?}");
        }
        thread::sleep(Duration::from_secs(2));
        scene.end(gone);
        let back = Instant::now();
        for number in 0..5 {
            let slot = guard.slot(&key(&number.to_string()));
            eventually("the slot is released", || !scene.exists(slot.as_str()));
        }
        // The longest pause between two tries is a second.
        let took = back.elapsed();
        assert!(
            took < Duration::from_secs(1) + OPERATION_TIMEOUT + SLACK,
            "{gone:?}: {took:?}"
        );
    });
}

#[test]
fn a_slot_that_was_released_late_is_entered_by_those_who_wait() {
    each_way(|scene, gone| {
        let guard = builder(&scene.proxy.url())
            .operation_timeout(OPERATION_TIMEOUT)
            .build()
            .unwrap();
        let lease = guard.try_enter(&key("a")).unwrap();
        scene.begin(gone);
        let waiting = {
            let guard = guard.clone();
            thread::spawn(move || guard.try_enter(&key("a")).map(|lease| lease.is_held()))
        };
        thread::sleep(Duration::from_millis(100));
        lease.close();
        thread::sleep(Duration::from_secs(1));
        scene.end(gone);
        eventually("the waiter enters", || waiting.is_finished());
        assert!(waiting.join().unwrap().unwrap(), "{gone:?}");
    });
}

/// Also with wake-ups in use, whose thread is in the middle of something.
#[test]
fn the_end_of_a_guard_waits_for_its_releases_at_most_the_grace() {
    each_way(|scene, gone| {
        for grace in [Duration::ZERO, Duration::from_millis(700)] {
            let guard = builder(&scene.proxy.url())
                .operation_timeout(Duration::from_secs(4))
                .shutdown_grace(grace)
                .build()
                .unwrap();
            let lease = guard.try_enter(&key("a")).unwrap();
            assert!(
                guard
                    .try_enter_for(&key("a"), Duration::from_millis(100))
                    .is_err()
            );
            scene.begin(gone);
            let slot = guard.slot(&key("a"));
            let before = Instant::now();
            let closing = thread::spawn(move || lease.close());
            closing.join().unwrap();
            let closed = before.elapsed();
            assert!(
                closed < Duration::from_secs(4) + SLACK,
                "{gone:?}: {closed:?}"
            );
            let before = Instant::now();
            drop(guard);
            let took = before.elapsed();
            assert!(took < grace + SLACK, "{gone:?}, {grace:?}: {took:?}");
            scene.end(gone);
            scene.server.cli(&["DEL", slot.as_str()]);
        }
    });
}

#[test]
fn a_release_that_succeeds_within_the_grace_is_not_given_up() {
    let scene = Scene::new();
    let guard = builder(&scene.proxy.url())
        .operation_timeout(OPERATION_TIMEOUT)
        .shutdown_grace(Duration::from_secs(20))
        .build()
        .unwrap();
    let slot = guard.slot(&key("a"));
    let lease = guard.try_enter(&key("a")).unwrap();
    scene.begin(Gone::Refused);
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    drop(lease);
    let ending = thread::spawn(move || drop(guard));
    thread::sleep(Duration::from_millis(300));
    assert!(!ending.is_finished(), "it waits for the release");
    scene.end(Gone::Refused);
    eventually("the guard ends", || ending.is_finished());
    assert!(!scene.exists(slot.as_str()));
}
