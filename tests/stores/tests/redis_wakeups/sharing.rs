//! Two guards over one store, and so over one tracked connection.

use guard_conformance::Waiting;
use guard_core::{GuardConfig, LeaseGuard};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{NEVER, SOON, enters_within, key, until_watched, wait};

#[test]
fn who_waits_in_another_guard_is_told_of_changes_after_a_hand_over() {
    for fencing in [false, true] {
        let server = RedisServer::start();
        let builder = RedisSandboxExecutionGuard::builder(server.url()).fencing(fencing);
        let guard = builder.retry_interval(NEVER).build().unwrap();
        let config = GuardConfig {
            retry_interval: NEVER,
            ..GuardConfig::default()
        };
        let another = LeaseGuard::new(guard.store().clone(), &config).unwrap();

        let lease = guard.try_enter(&key("a")).unwrap();
        let other = Waiting::start(move || another.try_enter(&key("a")));
        // A script's look registers for all of its keys, the counter included.
        until_watched(&server, if fencing { 2 } else { 1 });
        let next = wait(&guard, &key("a"));
        lease.close();
        // Handed over on the tracked connection, which is not told of its own changes.
        let lease = enters_within(SOON, next);
        lease.close();
        enters_within(SOON, other).close();
    }
}
