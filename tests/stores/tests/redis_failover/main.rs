//! Masters that die, hang, are replaced or give their hash slots away, under load. Each test has servers of its
//! own, and runs alone: sentinels and cluster nodes judge each other by the time that they take.
//!
//! `GUARD_FAILOVER_ROUNDS` says how many failovers the repeated tests go through.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acknowledged;
mod black_hole;
mod cluster;
mod crowd;
mod demotion;
mod deposed;
mod ghosts;
mod loss;
mod sentinel;
mod tls;
mod wakeups;

use std::env;
use std::time::Duration;

use guard_redis::{IsolationScope, RedisGuardBuilder, SandboxIsolationKey};
use guard_store_tests::redis_topologies;
use parking_lot::{Mutex, MutexGuard};

/// How soon after there is a new master everybody works again …
const RESUMED_WITHIN: Duration = Duration::from_secs(1);
/// … and what a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_secs(2);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
/// No test lasts that long: a slot that comes free does so because somebody freed it.
const TTL: Duration = Duration::from_secs(600);
/// The TTL where a failover may lose a release.
const LOST_RELEASE: Duration = Duration::from_secs(10);
const TOLERANCE: Duration = Duration::from_secs(60);
const DEFAULT_ROUNDS: usize = 2;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn rounds() -> usize {
    let rounds = env::var("GUARD_FAILOVER_ROUNDS").ok();
    rounds.map_or(DEFAULT_ROUNDS, |rounds| rounds.parse().unwrap())
}

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(address: &str) -> RedisGuardBuilder {
    redis_topologies::builder(address)
        .retry_interval(Duration::from_millis(100))
        .operation_timeout(OPERATION_TIMEOUT)
        .outage_tolerance(TOLERANCE)
        .lease_ttl(TTL)
}
