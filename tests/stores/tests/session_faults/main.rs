//! What session-bound stores share, on a database that fails at the moment that the test chooses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod database;
mod finality;
mod hand_overs;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    DEFAULT_KEY_PREFIX, GuardConfig, IsolationScope, KeyPrefix, LeaseGuard, SandboxIsolationKey,
    SlotName,
};
use guard_session::SessionStore;

use database::{Fake, Server, store};

/// What a noisy machine may add.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn slot(value: &str) -> SlotName {
    KeyPrefix::new(DEFAULT_KEY_PREFIX)
        .unwrap()
        .slot(&key(value))
}

fn config(operation_timeout: Duration) -> GuardConfig {
    GuardConfig {
        retry_interval: Duration::from_millis(50),
        operation_timeout,
        ..GuardConfig::default()
    }
}

fn guard(
    server: &Arc<Server>,
    wait_connections: u32,
    operation_timeout: Duration,
) -> LeaseGuard<SessionStore<Fake>> {
    let store = store(server, wait_connections, operation_timeout);
    LeaseGuard::new(store, &config(operation_timeout)).unwrap()
}
