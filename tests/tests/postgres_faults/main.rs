//! Faults of a real PostgreSQL server, of its sessions and of the way to it, and other programs on its locks.
//! Each test has a server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../postgres_backend/mod.rs"]
#[allow(dead_code, reason = "its suite runs elsewhere")]
mod postgres_backend;

mod losses;
mod poolers;
mod refusals;
mod sharing;
mod stalls;
mod waits;

use std::time::Duration;

use guard_conformance::postgres_server::PostgresServer;
use guard_postgres::{
    IsolationScope, PostgresGuardBuilder, PostgresSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

/// Tells the sessions of guards from others.
const OWNER: &str = "a guard under test";

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> PostgresGuardBuilder {
    PostgresSandboxExecutionGuard::builder(url)
        .owner(OWNER)
        .retry_interval(Duration::from_millis(20))
}

fn guard(server: &PostgresServer) -> PostgresSandboxExecutionGuard {
    builder(&server.url()).build().unwrap()
}

#[track_caller]
fn enter(guard: &PostgresSandboxExecutionGuard, key: &SandboxIsolationKey) -> SandboxLease {
    guard.try_enter_now(key).unwrap().expect("a free slot")
}

/// How many sessions of guards are in this state.
fn sessions(server: &PostgresServer, condition: &str) -> usize {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{OWNER}' AND {condition}"
    );
    server.sql(&sql).parse().unwrap()
}

/// How many sessions of guards wait for a lock.
fn blocked(server: &PostgresServer) -> usize {
    sessions(server, "wait_event = 'advisory'")
}
