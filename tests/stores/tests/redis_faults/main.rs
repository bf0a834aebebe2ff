//! Faults of a real Redis server, of what only looks like one, and of the way to it. Each test has a
//! server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod ages;
mod imposter;
mod outages;
mod passwords;
mod pools;

use std::time::Duration;

use guard_redis::{
    IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};
use guard_store_tests::redis_server::RedisServer;

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(server: &RedisServer) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(server.url()).retry_interval(Duration::from_millis(5))
}

fn guard(server: &RedisServer) -> RedisSandboxExecutionGuard {
    builder(server).build().unwrap()
}

#[track_caller]
fn enter(guard: &RedisSandboxExecutionGuard, key: &SandboxIsolationKey) -> SandboxLease {
    guard.try_enter_now(key).unwrap().expect("a free slot")
}

/// The number of connections that clients other than the asking one have.
fn connections(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).lines().count() - 1
}
