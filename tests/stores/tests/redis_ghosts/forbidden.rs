//! Where connections must not be ended at the server: the guard frees the slot until `ghost_window` is over.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually};
use guard_core::{Budget, LeaseStore, LeaseToken};
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard};

use crate::{Eye, FREED_WITHIN, SLACK, Scene, assert_passing_failure, key};

const GHOST_WINDOW: Duration = Duration::from_secs(2);

/// How the guard is kept from it.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// The user may not.
    ByRights,
    /// The guard was told not to.
    BySetting,
    /// The server does not tell who its clients are.
    InTheDark,
}

/// A guard that cannot end connections, and whose next command is held back.
fn held_back(scene: &Scene, kept: Kept) -> RedisSandboxExecutionGuard {
    let without = match kept {
        Kept::ByRights => "-client|kill",
        Kept::BySetting => "+client",
        Kept::InTheDark => "-client|info",
    };
    let rights = ["on", ">secret", "~*", "&*", "+@all", without];
    let user = [&["ACL", "SETUSER", "limited", "reset"][..], &rights].concat();
    assert_eq!(scene.server.cli(&user), "OK");
    let url = scene
        .proxy
        .url()
        .replace("redis://", "redis://limited:secret@");
    let builder = scene.builder(&url).ghost_window(GHOST_WINDOW);
    let kill = !matches!(kept, Kept::BySetting);
    let guard = builder.kill_unanswered(kill).build().unwrap();
    drop(guard.try_enter(&key("warm")).unwrap());
    scene.proxy.hold_next();
    guard
}

fn each(test: impl Fn(&Scene, Kept, &mut Eye) + Sync) {
    thread::scope(|scope| {
        for (kept, fencing) in [
            (Kept::ByRights, false),
            (Kept::ByRights, true),
            (Kept::BySetting, false),
            (Kept::InTheDark, true),
        ] {
            let test = &test;
            scope.spawn(move || {
                let scene = Scene::new(fencing);
                test(&scene, kept, &mut scene.eye());
            });
        }
    });
}

fn is_final(guard: &RedisSandboxExecutionGuard, token: &LeaseToken) -> bool {
    let slot = guard.slot(&key("a"));
    match guard.store().release(&slot, token, Budget::new(PATIENCE)) {
        Ok(_) => true,
        Err(error) if error.is_transient() => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_release_is_not_final_before_the_ghost_window_is_over() {
    each(|scene, kept, eye| {
        let guard = held_back(scene, kept);
        let slot = guard.slot(&key("a"));
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        let token = lease.token().clone();
        let entered = Instant::now();
        // The slot is free, though perhaps not for good.
        assert_eq!(lease.close(), CloseOutcome::Deferred, "{kept:?}");
        assert_eq!(eye.holder(slot.as_str()), None);
        assert!(!is_final(&guard, &token) || entered.elapsed() > GHOST_WINDOW / 2);
        eventually("the release is final", || is_final(&guard, &token));
        // The command went unanswered an operation timeout after it was sent at most.
        let window = entered.elapsed();
        assert!(
            window > GHOST_WINDOW - SLACK && window < GHOST_WINDOW + FREED_WITHIN,
            "{window:?}"
        );
        eye.no_ghosts();
    });
}

#[test]
fn a_ghost_that_comes_within_the_window_is_freed() {
    each(|scene, kept, eye| {
        for gives_up in [false, true] {
            let guard = held_back(scene, kept);
            let slot = guard.slot(&key("a"));
            if gives_up {
                assert_passing_failure(guard.try_enter_now(&key("a")), "held back");
            } else {
                drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
            }
            let unanswered = Instant::now();
            thread::sleep(GHOST_WINDOW / 4);
            scene.proxy.deliver();
            thread::sleep(Duration::from_millis(50));
            eye.freed(slot.as_str(), &format!("{kept:?}, gives up: {gives_up}"));
            thread::sleep(GHOST_WINDOW.saturating_sub(unanswered.elapsed()) + SLACK);
            eye.no_ghosts();
        }
    });
}

/// What is pending for one token does not keep the slot of another one.
#[test]
fn a_later_release_does_not_wait_for_an_earlier_one_that_is_not_final() {
    let scene = Scene::new(false);
    let builder = scene.builder(&scene.proxy.url()).kill_unanswered(false);
    let guard = builder
        .ghost_window(Duration::from_secs(600))
        .build()
        .unwrap();
    let mut eye = scene.eye();
    drop(guard.try_enter(&key("a")).unwrap());
    scene.proxy.hold_next();
    assert_passing_failure(guard.try_enter_now(&key("a")), "held back");
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    scene.proxy.refuse(true);
    scene.proxy.cut_all();
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    scene.proxy.heal();
    eye.freed(
        guard.slot(&key("a")).as_str(),
        "closed after an entry that gave up",
    );
}
