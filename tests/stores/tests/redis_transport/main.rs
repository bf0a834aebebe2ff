//! Ways to a real Redis server other than plain TCP: TLS and Unix sockets. Each test has a server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tls;
mod unix;

use std::time::{Duration, Instant};

use guard_redis::{
    GuardError, IsolationScope, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey,
};
use guard_store_tests::redis_server::RedisServer;

/// Short, for tests that wait for its end.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);
/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// What an entry to the slot `a` comes to while the server is stopped: it costs the operation timeout.
fn entry_to_a_stopped(server: &RedisServer, guard: &RedisSandboxExecutionGuard) -> GuardError {
    server.stop_process();
    let before = Instant::now();
    let error = guard.try_enter(&key("a")).expect_err("a stopped server");
    let took = before.elapsed();
    server.cont_process();
    assert!(took < OPERATION_TIMEOUT + SLACK, "{took:?}");
    assert!(error.is_transient(), "{error:?}");
    error
}
