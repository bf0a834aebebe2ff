//! Connections that were idle for long, and that something between has dropped without a word.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{connections_so_far, key};

const OPERATION_TIMEOUT: Duration = Duration::from_secs(4);
/// Longer than a connection is trusted without a question.
const IDLE: Duration = Duration::from_millis(2_500);

fn guard(proxy: &Proxy) -> RedisSandboxExecutionGuard {
    RedisSandboxExecutionGuard::builder(proxy.url())
        .operation_timeout(OPERATION_TIMEOUT)
        .wakeups(Wakeups::Polling)
        .build()
        .unwrap()
}

#[test]
fn an_idle_connection_that_was_dropped_silently_costs_no_entry() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = guard(&proxy);
    drop(guard.try_enter(&key("a")).unwrap());
    thread::sleep(IDLE);
    proxy.hold_next();
    let before = Instant::now();
    let lease = guard.try_enter_now(&key("a")).unwrap();
    assert!(lease.is_some());
    assert!(
        before.elapsed() < OPERATION_TIMEOUT,
        "{:?}",
        before.elapsed()
    );
    assert!(proxy.is_holding());
}

#[test]
fn an_idle_connection_that_was_dropped_silently_defers_no_release() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = guard(&proxy);
    let lease = guard.try_enter(&key("a")).unwrap();
    thread::sleep(IDLE);
    proxy.hold_next();
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert!(proxy.is_holding());
}

#[test]
fn an_idle_connection_that_still_works_is_kept() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = guard(&proxy);
    drop(guard.try_enter(&key("a")).unwrap());
    let before = connections_so_far(&server);
    thread::sleep(IDLE);
    drop(guard.try_enter(&key("a")).unwrap());
    assert_eq!(connections_so_far(&server), before + 1, "redis-cli's own");
}

/// The server closes what was idle for a second; nothing that was sent there may be in doubt then.
#[test]
fn a_connection_that_the_server_closed_for_idleness_is_not_written_to() {
    let server = RedisServer::start();
    server.cli(&["CONFIG", "SET", "timeout", "1"]);
    let proxy = Proxy::to(server.port());
    let guard = guard(&proxy);
    drop(guard.try_enter(&key("a")).unwrap());
    thread::sleep(IDLE);
    let lease = guard.try_enter_now(&key("a")).unwrap().unwrap();
    use guard_core::LeaseStore as _;
    assert!(!guard.store().in_doubt(lease.token()));
    assert_eq!(lease.close(), CloseOutcome::Released);
}
