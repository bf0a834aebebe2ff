//! A command that is held back on its way and arrives when its client has long gone on.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_redis::{CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};

use crate::{A_WHILE, OPERATION_TIMEOUT, Scene, assert_passing_failure, key};

/// A guard whose next command is held back. Its scripts are loaded.
fn held_back(scene: &Scene) -> RedisSandboxExecutionGuard {
    let guard = scene.guard();
    drop(guard.try_enter(&key("warm")).unwrap());
    scene.proxy.hold_next();
    guard
}

fn both(test: impl Fn(&Scene)) {
    test(&Scene::new(false));
    test(&Scene::new(true));
}

#[test]
fn delivered_between_retry_and_close_it_changes_nothing() {
    both(|scene| {
        let (guard, mut eye) = (held_back(scene), scene.eye());
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        assert!(scene.proxy.is_holding());
        scene.proxy.deliver();
        thread::sleep(A_WHILE);
        assert!(lease.is_held());
        let holder = eye.holder(guard.slot(&key("a")).as_str());
        assert_eq!(holder.as_deref(), Some(lease.token().as_str()));
        assert_eq!(lease.close(), CloseOutcome::Released);
        eye.no_ghosts();
    });
}

#[test]
fn delivered_after_the_close_it_takes_nothing() {
    both(|scene| {
        let (guard, mut eye) = (held_back(scene), scene.eye());
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        assert!(scene.proxy.is_holding());
        assert_eq!(lease.close(), CloseOutcome::Released);
        scene.proxy.deliver();
        eye.no_ghosts();
    });
}

#[test]
fn delivered_after_a_renewal_and_the_close_it_takes_nothing() {
    both(|scene| {
        let (guard, mut eye) = (held_back(scene), scene.eye());
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        lease.renew().unwrap();
        assert_eq!(lease.close(), CloseOutcome::Released);
        scene.proxy.deliver();
        eye.no_ghosts();
    });
}

#[test]
fn of_an_entry_that_gave_up_it_takes_nothing_for_long() {
    both(|scene| {
        for pause in [0, 1, 5, 20, 100] {
            let (guard, mut eye) = (held_back(scene), scene.eye());
            assert_passing_failure(guard.try_enter_now(&key("a")), "held back");
            assert!(scene.proxy.is_holding());
            thread::sleep(Duration::from_millis(pause));
            scene.proxy.deliver();
            thread::sleep(Duration::from_millis(20));
            eye.freed(guard.slot(&key("a")).as_str(), "delivered after giving up");
            eye.no_ghosts();
        }
    });
}

#[test]
fn of_an_entry_that_gave_up_it_is_ended_before_it_comes() {
    both(|scene| {
        let (guard, mut eye) = (held_back(scene), scene.eye());
        assert_passing_failure(guard.try_enter_now(&key("a")), "held back");
        // The guard's connection, and ours: the one that is held back was ended.
        eventually("the background release ends the connection", || {
            let clients = scene.server.cli(&["CLIENT", "LIST"]);
            clients.lines().count() == 3
        });
        scene.proxy.deliver();
        thread::sleep(A_WHILE);
        eye.no_ghosts();
    });
}

/// Its client may be in the middle of anything.
#[test]
fn delivered_at_any_moment_it_takes_nothing() {
    both(|scene| {
        let mut eye = scene.eye();
        let start = Instant::now();
        for millis in (0..2 * OPERATION_TIMEOUT.as_millis() as u64).step_by(10) {
            let guard = held_back(scene);
            let entry = Waiting::start(move || {
                let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
                assert!(lease.is_held());
                lease.close()
            });
            eventually("the command is held back", || scene.proxy.is_holding());
            thread::sleep(Duration::from_millis(millis));
            scene.proxy.deliver();
            assert_eq!(entry.result(), CloseOutcome::Released);
            let slots = eye.holder("agentscope:sandbox:lock:agent:a");
            assert_eq!(slots, None, "delivered after {millis} ms");
        }
        println!("took {:?}", start.elapsed());
        eye.no_ghosts();
    });
}

/// Several commands of one token under way, on as many connections.
#[test]
fn many_of_one_entry_take_nothing() {
    both(|scene| {
        let (guard, mut eye) = (held_back(scene), scene.eye());
        let entry = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE))
        };
        eventually("the first is held back", || scene.proxy.is_holding());
        scene.proxy.black_hole(true);
        // Two more attempts go unanswered.
        thread::sleep(3 * OPERATION_TIMEOUT);
        scene.proxy.black_hole(false);
        let lease = entry.result().unwrap();
        assert_eq!(lease.close(), CloseOutcome::Released);
        scene.proxy.deliver();
        eye.no_ghosts();
    });
}

/// Each step of the release takes its time; the command comes between any two of them.
#[test]
fn delivered_in_the_middle_of_the_release_it_takes_nothing() {
    both(|scene| {
        let mut eye = scene.eye();
        for millis in (0..150).step_by(5) {
            let guard = held_back(scene);
            let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
            assert!(scene.proxy.is_holding());
            scene.proxy.delay(Duration::from_millis(30));
            let closing = thread::spawn(move || lease.close());
            thread::sleep(Duration::from_millis(millis));
            scene.proxy.deliver();
            closing.join().unwrap();
            scene.proxy.heal();
            let slot = "agentscope:sandbox:lock:agent:a";
            eye.freed(slot, &format!("delivered after {millis} ms"));
        }
        eye.no_ghosts();
    });
}

/// The repetition was answered, so nothing but the store remembers that the first try was not.
#[test]
fn of_an_entry_whose_repetition_found_the_slot_held_it_takes_nothing() {
    both(|scene| {
        let other = scene.builder(&scene.server.url()).build().unwrap();
        let (guard, mut eye) = (held_back(scene), scene.eye());
        let lease = other.try_enter(&key("a")).unwrap();
        let entry = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), OPERATION_TIMEOUT))
        };
        eventually("the command is held back", || scene.proxy.is_holding());
        scene.proxy.cut_held_client();
        assert!(matches!(entry.result(), Err(GuardError::TimedOut { .. })));
        assert_eq!(lease.close(), CloseOutcome::Released);
        thread::sleep(A_WHILE);
        scene.proxy.deliver();
        eye.no_ghosts();
    });
}
