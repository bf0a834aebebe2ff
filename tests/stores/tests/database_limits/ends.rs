//! The end of a guard whose server does not answer.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::measure::alone;
use guard_conformance::{PATIENCE, Waiting};
use guard_core::{CloseOutcome, DEFAULT_KEY_PREFIX, KeyPrefix, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database};

use crate::{builder, key, scenes};

scenes! {
    no_thread_outlives_a_guard_with_a_release_that_cannot_be_made,
    no_thread_outlives_a_guard_whose_entry_waited_at_the_server,
}

const GRACE: Duration = Duration::from_millis(300);
/// What a noisy machine may add.
const SLACK: Duration = Duration::from_millis(500);

/// The threads of guards.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("guard-")).collect()
}

#[track_caller]
fn assert_ends(since: Instant) {
    while !threads().is_empty() && since.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    let took = since.elapsed();
    assert!(took < GRACE + SLACK, "{took:?} {:?}", threads());
}

fn no_thread_outlives_a_guard_with_a_release_that_cannot_be_made<D: Database>() {
    let _alone = alone();
    let server = Daemon::<D>::start();
    let guard = builder::<D>(&server.url())
        .shutdown_grace(GRACE)
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    server.stop_process();
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    drop(lease);
    let before = Instant::now();
    drop(guard);
    assert_ends(before);
    server.cont_process();
}

fn no_thread_outlives_a_guard_whose_entry_waited_at_the_server<D: Database>() {
    let _alone = alone();
    let server = Daemon::<D>::start();
    let guard = builder::<D>(&server.url()).shutdown_grace(GRACE);
    let guard = guard.operation_timeout(GRACE).build().unwrap();
    let slot = KeyPrefix::new(DEFAULT_KEY_PREFIX).unwrap().slot(&key("a"));
    let mut client = Client::start(&server);
    assert!(client.lock(&slot));
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key("a")).map(drop))
    };
    guard_conformance::eventually("it waits at the server", || server.sessions("waits") == 1);
    server.stop_process();
    waiting.interrupt();
    waiting.result().unwrap_err();
    let before = Instant::now();
    drop(guard);
    assert_ends(before);
    server.cont_process();
}
