//! Renewal in the background: what it costs, what it survives, and that it ends with its lease.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cost;
mod ends;
mod interference;
mod losses;
mod suspended;
mod validity;

use std::time::Duration;

use guard_redis::{
    IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::redis_server::RedisServer;

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(url).auto_renew(true)
}

fn exists(server: &RedisServer, slot: &str) -> bool {
    server.cli(&["EXISTS", slot]) == "1"
}
