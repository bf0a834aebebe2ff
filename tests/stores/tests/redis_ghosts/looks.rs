//! Looks on the tracked connection take slots as well: cut at every byte, and held back.

use std::thread;
use std::time::Duration;

use guard_conformance::{PATIENCE, Waiting, eventually, together};
use guard_redis::{
    CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease,
    Wakeups,
};

use crate::cuts::{Mode, PARTS, bytes, every_cut};
use crate::{Eye, Scene, build, key};

/// Far longer than any round: whoever enters was woken.
const INTERVAL: Duration = Duration::from_secs(600);
const FOREIGN: &str = "foreign";

fn guard(scene: &Scene) -> RedisSandboxExecutionGuard {
    build(|| {
        let builder = scene.builder(&scene.proxy.url()).retry_interval(INTERVAL);
        builder.wakeups(Wakeups::Tracking)
    })
}

impl Eye {
    fn hold(&mut self, slot: &str) {
        redis::cmd("SET")
            .arg(slot)
            .arg(FOREIGN)
            .exec(&mut self.0)
            .unwrap();
    }

    /// How many scripts the server has run.
    fn scripts(&mut self) -> u64 {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.0)
            .unwrap();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok())
            .unwrap_or_default()
    }

    fn free(&mut self, slot: &str) {
        redis::cmd("DEL").arg(slot).exec(&mut self.0).unwrap();
    }
}

/// An entry that waits for a slot which a stranger holds, and whose looks are tracked: it notices a change.
fn waiter(
    eye: &mut Eye,
    guard: &RedisSandboxExecutionGuard,
    patience: Duration,
) -> Waiting<Result<SandboxLease, GuardError>> {
    eye.hold(guard.slot(&key("a")).as_str());
    let before = eye.scripts();
    let waiter = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), patience))
    };
    // The first look is at the slot, the second one is tracked.
    eventually("the waiter has looked twice", || {
        eye.scripts() >= before + 2
    });
    waiter
}

/// Loads the scripts and opens the connections.
fn warm_up(eye: &mut Eye, guard: &RedisSandboxExecutionGuard) {
    let waiter = waiter(eye, guard, PATIENCE);
    eye.free(guard.slot(&key("a")).as_str());
    drop(waiter.result().unwrap());
}

fn cut_looks(fencing: bool, part: usize) {
    let scene = Scene::new(fencing);
    let (guard, mut eye) = (guard(&scene), scene.eye());
    let slot = guard.slot(&key("a"));
    warm_up(&mut eye, &guard);
    let first = waiter(&mut eye, &guard, PATIENCE);
    let mut lease = None;
    let length = bytes(&scene.proxy, || {
        eye.free(slot.as_str());
        lease = Some(first.result().unwrap());
    });
    drop(lease);
    for cut in every_cut(length).skip(part).step_by(PARTS) {
        // Wake-ups that failed come back with a growing pause: a new guard has them at once.
        let guard = crate::looks::guard(&scene);
        // Short where nothing gets through: then it gives up.
        let patience = match cut.mode {
            Mode::ForGood => Duration::from_millis(600),
            Mode::Once | Mode::Twice => PATIENCE,
        };
        let waiter = waiter(&mut eye, &guard, patience);
        let outcome = cut.during(&scene.proxy, || {
            // The message to the waiter is part of the exchange.
            eye.free(slot.as_str());
            waiter.result()
        });
        eye.entry_is_settled(outcome, &slot, cut);
    }
    eye.no_ghosts();
}

#[test]
fn a_look_that_is_cut_anywhere_leaves_no_ghost() {
    together(PARTS, |part| cut_looks(false, part));
}

#[test]
fn a_fenced_look_that_is_cut_anywhere_leaves_no_ghost() {
    together(PARTS, |part| cut_looks(true, part));
}

#[test]
fn a_look_that_is_held_back_takes_nothing() {
    for fencing in [false, true] {
        for delivered_after_close in [false, true] {
            let scene = Scene::new(fencing);
            let (guard, mut eye) = (guard(&scene), scene.eye());
            let slot = guard.slot(&key("a"));
            warm_up(&mut eye, &guard);
            let waiter = waiter(&mut eye, &guard, PATIENCE);
            scene.proxy.hold_next();
            eye.free(slot.as_str());
            let lease = waiter.result().unwrap();
            assert!(scene.proxy.is_holding());
            if delivered_after_close {
                assert_eq!(lease.close(), CloseOutcome::Released);
                scene.proxy.deliver();
            } else {
                scene.proxy.deliver();
                thread::sleep(crate::A_WHILE);
                assert!(lease.is_held());
                assert_eq!(lease.close(), CloseOutcome::Released);
            }
            eye.no_ghosts();
        }
    }
}

#[test]
fn a_look_that_is_held_back_of_an_entry_that_gave_up_takes_nothing_for_long() {
    for fencing in [false, true] {
        let scene = Scene::new(fencing);
        let (guard, mut eye) = (guard(&scene), scene.eye());
        let slot = guard.slot(&key("a"));
        warm_up(&mut eye, &guard);
        let waiter = waiter(&mut eye, &guard, PATIENCE);
        scene.proxy.hold_next();
        eye.free(slot.as_str());
        eventually("the look is under way", || scene.proxy.is_holding());
        waiter.interrupt();
        match waiter.result() {
            Err(GuardError::Interrupted { .. }) => {}
            outcome => panic!("{outcome:?}"),
        }
        scene.proxy.deliver();
        thread::sleep(Duration::from_millis(20));
        eye.freed(slot.as_str(), "the entry has gone");
        eye.no_ghosts();
    }
}
