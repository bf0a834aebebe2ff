//! Commands that are under way for longer than the TTL of the lease that they would take.

use std::thread;
use std::time::Duration;

use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard};

use crate::{Scene, assert_passing_failure, build, key};

const TTL: Duration = Duration::from_secs(3);

/// A guard with so short a TTL.
fn brief(scene: &Scene) -> RedisSandboxExecutionGuard {
    build(|| scene.builder(&scene.proxy.url()).lease_ttl(TTL))
}

#[test]
fn a_server_that_is_stopped_for_longer_than_the_ttl_takes_no_slot_for_nobody() {
    let scene = Scene::new(false);
    let guard = brief(&scene);
    let mut eye = scene.eye();
    drop(guard.try_enter(&key("a")).unwrap());
    scene.server.stop_process();
    assert_passing_failure(guard.try_enter_now(&key("a")), "stopped");
    thread::sleep(TTL + Duration::from_secs(2));
    scene.server.cont_process();
    // The entry's command is executed only now.
    let slot = guard.slot(&key("a"));
    eye.freed(slot.as_str(), "stopped for longer than the TTL");
    thread::sleep(Duration::from_millis(1_500));
    eye.no_ghosts();
}

#[test]
fn a_command_held_back_for_longer_than_the_ttl_takes_no_slot_for_nobody() {
    let scene = Scene::new(true);
    let guard = brief(&scene);
    let mut eye = scene.eye();
    drop(guard.try_enter(&key("a")).unwrap());
    scene.proxy.hold_next();
    assert_passing_failure(guard.try_enter_now(&key("a")), "held back");
    scene.proxy.black_hole(true);
    thread::sleep(TTL + Duration::from_secs(2));
    scene.proxy.heal();
    let slot = guard.slot(&key("a"));
    eye.freed(slot.as_str(), "held back for longer than the TTL");
    thread::sleep(Duration::from_millis(1_500));
    eye.no_ghosts();
}

#[test]
fn a_close_while_the_server_is_stopped_for_long_is_made_good() {
    let scene = Scene::new(false);
    let guard = scene.guard();
    let mut eye = scene.eye();
    let lease = guard.try_enter(&key("a")).unwrap();
    scene.server.stop_process();
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    thread::sleep(Duration::from_secs(5));
    scene.server.cont_process();
    eye.freed(guard.slot(&key("a")).as_str(), "closed while stopped");
    eye.no_ghosts();
}
