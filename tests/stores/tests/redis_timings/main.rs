//! How quickly waiters enter, and what waiting and handing over cost, on a real Redis server. One
//! measurement runs at a time; ratios are taken in one run, round by round beside what they are held against.
//!
//! The ratios that are promised are those of an optimised build on a machine with a processor to spare:
//! `cargo test --release -p guard-store-tests --test redis_timings -- --nocapture`. Other builds, which run
//! beside whatever else is being built, are held to wide ones: a lost wake-up or a turn that waits for an
//! interval costs a hundred times as much and shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crowd;
mod expiry;
mod hand_over;
mod latency;

use guard_redis::{
    IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};
use guard_store_tests::redis_server::RedisServer;

/// The bound that is promised, or in a build without optimisation the wide one.
const fn bound(promised: f64, wide: f64) -> f64 {
    if cfg!(debug_assertions) {
        wide
    } else {
        promised
    }
}

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(server: &RedisServer) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(server.url())
}

fn guard(server: &RedisServer) -> RedisSandboxExecutionGuard {
    builder(server).build().unwrap()
}

#[track_caller]
fn enter(guard: &RedisSandboxExecutionGuard, key: &SandboxIsolationKey) -> SandboxLease {
    guard.try_enter_now(key).unwrap().expect("a free slot")
}

/// A connection of a program that is not ours.
fn raw(server: &RedisServer) -> redis::Connection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap()
}
