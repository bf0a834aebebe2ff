//! Wake-ups on a real Redis server: who is woken, what waiting costs, and what becomes of waiters when the
//! connections of the wake-ups, their server or its scripts go. Each test has a server of its own.
//!
//! The retry interval is a minute nearly everywhere: whoever sleeps through a release shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod busy;
mod cost;
mod looks;
mod losses;
mod processes;
mod sharing;

use std::time::{Duration, Instant};

use guard_conformance::{Waiting, eventually};
use guard_redis::{
    GuardError, IsolationScope, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};
use guard_store_tests::redis_server::RedisServer;

/// Longer than any test lasts.
const NEVER: Duration = Duration::from_secs(60);
/// At once, on a noisy machine.
const SOON: Duration = Duration::from_secs(1);
/// Once a silent loss is noticed: the checks' interval, their timeout and a new connection.
const ONCE_NOTICED: Duration = Duration::from_secs(10);

type Wait = Waiting<Result<SandboxLease, GuardError>>;

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn guard(server: &RedisServer) -> RedisSandboxExecutionGuard {
    let builder = RedisSandboxExecutionGuard::builder(server.url());
    builder.retry_interval(NEVER).build().unwrap()
}

/// A foreign holder takes the slot of `key` for good.
fn hold(server: &RedisServer, guard: &RedisSandboxExecutionGuard, key: &SandboxIsolationKey) {
    assert_eq!(
        server.cli(&["SET", guard.slot(key).as_str(), "foreign"]),
        "OK"
    );
}

/// And gives it up.
fn free(server: &RedisServer, guard: &RedisSandboxExecutionGuard, key: &SandboxIsolationKey) {
    server.cli(&["DEL", guard.slot(key).as_str()]);
}

/// Starts an entry that waits.
fn wait(guard: &RedisSandboxExecutionGuard, key: &SandboxIsolationKey) -> Wait {
    let (guard, key) = (guard.clone(), key.clone());
    Waiting::start(move || guard.try_enter(&key))
}

/// Waits until the server watches that many keys: whoever waits has looked, and would be told.
fn until_watched(server: &RedisServer, keys: usize) {
    let line = format!("tracking_total_keys:{keys}");
    eventually("the server watches", || {
        let info = server.cli(&["INFO", "stats"]);
        info.lines().any(|found| found.trim_end() == line)
    });
}

/// The entry's lease, which must come within `bound`.
#[track_caller]
fn enters_within(bound: Duration, wait: Wait) -> SandboxLease {
    let before = Instant::now();
    let lease = wait.result().unwrap();
    let took = before.elapsed();
    assert!(took < bound, "{took:?}");
    assert!(lease.is_held());
    lease
}

/// A foreign holder frees the slot, and a waiter is woken: the watch works.
#[track_caller]
fn assert_wakes(server: &RedisServer, guard: &RedisSandboxExecutionGuard) {
    let key = key("probe");
    hold(server, guard, &key);
    let waiting = wait(guard, &key);
    until_watched(server, 1);
    free(server, guard, &key);
    enters_within(SOON, waiting).close();
}
