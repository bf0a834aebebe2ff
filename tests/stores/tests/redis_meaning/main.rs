//! What an answer means: whose it is, whether it is one, and whether its server may give it. Each test has servers of its
//! own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod counters;
mod finality;
mod renewals;
mod roles;
mod strangers;
mod tokens;

use std::time::Duration;

use guard_core::{LeaseToken, LeaseTtl, OwnerLabel};
use guard_redis::{
    GuardError, IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxIsolationKey,
    Wakeups,
};
use guard_store_tests::redis_server::{RedisServer, Setup};

const OPERATION_TIMEOUT: Duration = Duration::from_millis(1_000);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(url)
        .operation_timeout(OPERATION_TIMEOUT)
        .outage_tolerance(Duration::ZERO)
        .retry_interval(Duration::from_millis(20))
        .wakeups(Wakeups::Polling)
}

fn token() -> LeaseToken {
    LeaseToken::generate(&OwnerLabel::default())
}

/// Longer than any test.
fn ttl() -> LeaseTtl {
    LeaseTtl::new(Duration::from_secs(600), Duration::MAX).unwrap()
}

fn start(arguments: &[&str]) -> RedisServer {
    RedisServer::start_with(Setup {
        arguments: arguments.iter().map(|&it| it.to_owned()).collect(),
        ..Setup::default()
    })
}

#[track_caller]
fn assert_fails<T>(outcome: Result<T, GuardError>, transient: bool, what: &str) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) if error.is_transient() == transient => {}
        other => panic!("{what}: {other:?}"),
    }
}
