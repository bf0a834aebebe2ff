//! Passing a slot on inside the process, broken off at every byte or held back.

use std::thread;
use std::time::Duration;

use guard_conformance::proxy::Direction;
use guard_conformance::{PATIENCE, Waiting, eventually, together};
use guard_redis::{
    CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};

use crate::cuts::{PARTS, bytes, every_cut};
use crate::{A_WHILE, Scene, build, key};

/// Long enough for an exchange between two looks of a waiter, and short enough for a test.
const INTERVAL: Duration = Duration::from_millis(250);

fn guard(scene: &Scene) -> RedisSandboxExecutionGuard {
    build(|| scene.builder(&scene.proxy.url()).retry_interval(INTERVAL))
}

/// A lease, and an entry that waits to be handed it: it has looked, and will not do so soon.
fn lease_and_waiter(
    scene: &Scene,
    guard: &RedisSandboxExecutionGuard,
    key: &SandboxIsolationKey,
) -> (SandboxLease, Waiting<Result<SandboxLease, GuardError>>) {
    let lease = guard.try_enter_for(key, PATIENCE).unwrap();
    let before = scene.proxy.forwarded(Direction::Reply);
    let waiter = {
        let (guard, key) = (guard.clone(), key.clone());
        Waiting::start(move || guard.try_enter_for(&key, PATIENCE))
    };
    eventually("the waiter has looked", || {
        scene.proxy.forwarded(Direction::Reply) > before
    });
    (lease, waiter)
}

fn cut_hand_overs(fencing: bool, part: usize) {
    let scene = Scene::new(fencing);
    let (guard, mut eye) = (guard(&scene), scene.eye());
    let length = {
        // The second time the scripts are loaded.
        let mut length = [0, 0];
        for _ in 0..2 {
            let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("99999"));
            length = bytes(&scene.proxy, || {
                assert_eq!(lease.close(), CloseOutcome::Released)
            });
            drop(waiter.result().unwrap());
        }
        length
    };
    // Each round waits for a look or more: the parts run beside each other.
    for (number, cut) in every_cut(length).enumerate().skip(part).step_by(PARTS) {
        let key = key(&format!("{number:05}"));
        let slot = guard.slot(&key);
        let (lease, waiter) = lease_and_waiter(&scene, &guard, &key);
        let token = lease.token().as_str().to_owned();
        cut.during(&scene.proxy, || lease.close());
        let next = waiter.result().unwrap();
        assert!(next.is_held(), "{cut}");
        assert!(
            lease.fencing_token() < next.fencing_token() || !fencing,
            "{cut}"
        );
        // What is still pending of the first lease leaves the second one alone.
        thread::sleep(Duration::from_millis(5));
        let holder = eye.holder(slot.as_str());
        assert_eq!(
            holder.as_deref(),
            Some(next.token().as_str()),
            "{cut}, handed over by {token}"
        );
        next.renew().unwrap();
        assert_eq!(next.close(), CloseOutcome::Released, "{cut}");
        assert_eq!(eye.holder(slot.as_str()), None, "{cut}");
    }
    eye.no_ghosts();
}

#[test]
fn a_hand_over_that_is_cut_anywhere_reaches_the_next_in_line() {
    together(PARTS, |part| cut_hand_overs(false, part));
}

#[test]
fn a_fenced_hand_over_that_is_cut_anywhere_reaches_the_next_in_line() {
    together(PARTS, |part| cut_hand_overs(true, part));
}

/// The swap arrives when its receiver has entered, has closed, or has given up.
#[test]
fn a_hand_over_that_is_held_back_takes_nothing() {
    for fencing in [false, true] {
        for delivered_after_close in [false, true] {
            let scene = Scene::new(fencing);
            let (guard, mut eye) = (guard(&scene), scene.eye());
            drop(guard.try_enter(&key("warm")).unwrap());
            let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("a"));
            scene.proxy.hold_next();
            assert_eq!(lease.close(), CloseOutcome::Deferred);
            assert!(scene.proxy.is_holding());
            let next = waiter.result().unwrap();
            assert!(next.is_held());
            if delivered_after_close {
                assert_eq!(next.close(), CloseOutcome::Released);
                scene.proxy.deliver();
            } else {
                scene.proxy.deliver();
                thread::sleep(A_WHILE);
                let holder = eye.holder(guard.slot(&key("a")).as_str());
                assert_eq!(holder.as_deref(), Some(next.token().as_str()));
                assert_eq!(next.close(), CloseOutcome::Released);
            }
            eye.no_ghosts();
        }
    }
}

#[test]
fn a_hand_over_that_is_held_back_until_nobody_waits_takes_nothing() {
    for fencing in [false, true] {
        let scene = Scene::new(fencing);
        let (guard, mut eye) = (guard(&scene), scene.eye());
        drop(guard.try_enter(&key("warm")).unwrap());
        let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("a"));
        scene.proxy.hold_next();
        let closing = thread::spawn(move || lease.close());
        eventually("the hand-over is under way", || scene.proxy.is_holding());
        // The receiver goes while it is being handed the slot.
        waiter.interrupt();
        assert!(matches!(
            waiter.result(),
            Err(GuardError::Interrupted { .. })
        ));
        assert_eq!(closing.join().unwrap(), CloseOutcome::Deferred);
        scene.proxy.deliver();
        thread::sleep(Duration::from_millis(20));
        eye.freed(guard.slot(&key("a")).as_str(), "the receiver has gone");
        eye.no_ghosts();
    }
}

/// The command that took the slot for the first one arrives when the second one has closed.
#[test]
fn an_entry_that_was_held_back_takes_nothing_after_a_hand_over() {
    for fencing in [false, true] {
        let scene = Scene::new(fencing);
        let (guard, mut eye) = (guard(&scene), scene.eye());
        drop(guard.try_enter(&key("warm")).unwrap());
        scene.proxy.hold_next();
        let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("a"));
        assert!(scene.proxy.is_holding());
        assert_eq!(lease.close(), CloseOutcome::Released);
        assert_eq!(waiter.result().unwrap().close(), CloseOutcome::Released);
        scene.proxy.deliver();
        eye.no_ghosts();
    }
}

/// The slot is swapped, nobody hears of it, and nobody is there to take it.
#[test]
fn a_hand_over_without_answer_to_a_receiver_that_has_gone_is_undone() {
    for fencing in [false, true] {
        let scene = Scene::new(fencing);
        let (guard, mut eye) = (guard(&scene), scene.eye());
        // The scripts are loaded.
        let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("warm"));
        lease.close();
        drop(waiter.result().unwrap());
        let (lease, waiter) = lease_and_waiter(&scene, &guard, &key("a"));
        let slot = guard.slot(&key("a"));
        let token = lease.token().as_str().to_owned();
        // Each way takes a while; the answer is lost.
        scene.proxy.cut_for_good_after(Direction::Reply, 0);
        scene.proxy.delay(Duration::from_millis(60));
        let closing = thread::spawn(move || lease.close());
        eventually("the slot is swapped", || {
            eye.holder(slot.as_str()).as_ref() != Some(&token)
        });
        waiter.interrupt();
        assert!(matches!(
            waiter.result(),
            Err(GuardError::Interrupted { .. })
        ));
        assert_eq!(closing.join().unwrap(), CloseOutcome::Deferred);
        scene.proxy.heal();
        eye.freed(slot.as_str(), "swapped for a receiver that has gone");
        eye.no_ghosts();
    }
}
