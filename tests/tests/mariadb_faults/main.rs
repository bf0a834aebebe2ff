//! Faults of a real MariaDB server, of its sessions and of the way to it, and other programs on its locks.
//! Each test has a server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../mariadb_backend/mod.rs"]
#[allow(dead_code, reason = "its suite runs elsewhere")]
mod mariadb_backend;

mod losses;
mod proxies;
mod refusals;
mod sharing;
mod stalls;
mod waits;

use std::time::Duration;

use guard_conformance::PATIENCE;
use guard_conformance::mariadb_server::MariaDbServer;
use guard_core::Budget;
use guard_mysql::{
    IsolationScope, MySqlGuardBuilder, MySqlSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease,
};

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

/// Tells the sessions of guards from others.
const OWNER: &str = "a guard under test";

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> MySqlGuardBuilder {
    MySqlSandboxExecutionGuard::builder(url)
        .owner(OWNER)
        .retry_interval(Duration::from_millis(20))
}

fn guard(server: &MariaDbServer) -> MySqlSandboxExecutionGuard {
    builder(&server.url()).build().unwrap()
}

fn budget() -> Budget {
    Budget::new(PATIENCE)
}

#[track_caller]
fn enter(guard: &MySqlSandboxExecutionGuard, key: &SandboxIsolationKey) -> SandboxLease {
    guard.try_enter_now(key).unwrap().expect("a free slot")
}

/// How many sessions of guards are in this state.
fn sessions(server: &MariaDbServer, condition: &str) -> usize {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
         JOIN performance_schema.session_connect_attrs ON PROCESSLIST_ID = ID \
         WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE = '{OWNER}' AND {condition}"
    );
    server.sql(&sql).parse().unwrap()
}

/// How many sessions of guards wait for a lock.
fn blocked(server: &MariaDbServer) -> usize {
    sessions(server, "STATE = 'User lock'")
}
