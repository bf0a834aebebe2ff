//! What is left when guards and leases are gone.

use std::env;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use guard_core::CloseOutcome;

use crate::backend::Backend;
use crate::fixture::{Fixture, assert_free, enter, eventually, key};
use crate::waiting::{Waiting, together};

/// Says which case a process was started for.
const ALONE: &str = "GUARD_CONFORMANCE_ALONE";

/// Released, contended and renewed slots leave no name behind, but for a fence counter each.
pub(crate) fn nothing_is_left_in_the_store(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guards = [fixture.guard(), fixture.guard()];
    let keys = ["a", "b", "c"].map(key);
    together(8, |number| {
        for turn in 0..10 {
            let lease = guards[number % 2].try_enter(&keys[turn % 3]).unwrap();
            lease.renew().unwrap();
        }
    });
    drop(guards);
    // Counters have names that no slot can have.
    let (counters, slots): (Vec<_>, Vec<_>) = fixture
        .left(&keys)
        .into_iter()
        .partition(|name| name.contains('\0'));
    assert_eq!(slots, [""; 0]);
    let expected = fixture.counters().map_or(0, |_| keys.len());
    assert_eq!(counters.len(), expected, "{counters:?}");
}

/// A lease needs no guard to be held, renewed and closed.
pub(crate) fn leases_outlive_their_guard(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let lease = enter(&guard, &key("a"));
    drop(guard);
    assert!(lease.is_held() && lease.renew().is_ok());
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_free(&fixture.guard(), &key("a"));
}

/// All of a guard's threads end: keeper, callbacks, and whatever its store has.
pub(crate) fn no_thread_outlives_the_last_guard_and_lease(backend: &dyn Backend) {
    // A case's thread has the case's name.
    let this = thread::current();
    let case = this.name().expect("a case's thread");
    if env::var_os(ALONE).is_none_or(|asked| asked != case) {
        return run_alone(case);
    }
    let fixture = Fixture::new(backend);
    let before = threads();
    let guards: Vec<_> = (0..5).map(|_| fixture.guard()).collect();
    let leases: Vec<_> = guards
        .iter()
        .map(|guard| enter(guard, &key("a")))
        .take(1)
        .collect();
    for lease in &leases {
        lease.on_lost(|| {}).unwrap();
    }
    for guard in &guards {
        drop(enter(guard, &key("b")));
    }
    let waiting = {
        let guard = Arc::clone(&guards[1]);
        Waiting::start(move || guard.try_enter(&key("a")).map(drop))
    };
    assert!(threads().len() > before.len(), "the guards have threads");
    drop(guards);
    drop(leases);
    waiting.result().unwrap();
    eventually("the guards' threads end", || {
        threads().len() <= before.len()
    });
}

/// The names of this process's threads.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect()
}

/// Runs a case in a process of its own, where no other case starts and ends threads.
fn run_alone(case: &str) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", case, "--test-threads", "1"])
        .env(ALONE, case)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
