//! The rules for users on the Redis store's pages: they suffice, and each word of them is needed. One test runs at
//! a time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod one_server;
mod topologies;

use std::time::Duration;

use guard_redis::{IsolationScope, SandboxIsolationKey};

const PREFIX: &str = "proof:of:rights:";
/// Enough for a noisy machine, and what a command that is held back costs.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(1_000);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}
