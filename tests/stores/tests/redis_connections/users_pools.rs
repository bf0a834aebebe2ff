//! A pool that is its user's.

use std::time::{Duration, Instant};

use guard_redis::r2d2::{ManageConnection, Pool};
use guard_redis::{RedisConnectionManager, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, key};

const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

fn manager(server: &RedisServer) -> RedisConnectionManager {
    RedisSandboxExecutionGuard::builder(server.url())
        .operation_timeout(OPERATION_TIMEOUT)
        .connection_manager()
        .unwrap()
}

#[test]
fn guards_with_prefixes_of_their_own_share_a_pool() {
    let server = RedisServer::start();
    let pool = Pool::builder().max_size(2).build(manager(&server)).unwrap();
    let guards = ["one", "two"].map(|prefix| {
        RedisSandboxExecutionGuard::from_pool(pool.clone())
            .key_prefix(prefix)
            .build()
            .unwrap()
    });
    let leases = guards
        .each_ref()
        .map(|guard| guard.try_enter(&key("a")).unwrap());
    assert!(leases.iter().all(|lease| lease.is_held()));
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    for guard in &guards {
        drop(guard.try_enter(&key("b")).unwrap());
    }
    assert_eq!(pool.state().connections, 2);
}

#[test]
fn a_manager_opens_and_checks_within_the_operation_timeout() {
    let server = RedisServer::start();
    let manager = manager(&server);
    let mut connection = manager.connect().unwrap();
    manager.is_valid(&mut connection).unwrap();
    assert!(!manager.has_broken(&mut connection));
    server.stop_process();
    let begun = Instant::now();
    let error = manager
        .is_valid(&mut connection)
        .expect_err("it is stopped");
    assert!(error.is_transient(), "{error}");
    let error = manager.connect().expect_err("it is stopped");
    assert!(error.is_transient(), "{error}");
    let longest: Duration = 2 * OPERATION_TIMEOUT + SLACK;
    assert!(begun.elapsed() < longest, "{:?}", begun.elapsed());
}
