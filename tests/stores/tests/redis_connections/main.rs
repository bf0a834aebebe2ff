//! What becomes of connections that are slow, idle, or too few, and of the time that an operation may take on them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addresses;
mod drips;
mod gateways;
mod idle;
mod overload;
mod settings;
mod users_pools;

use std::time::Duration;

use guard_redis::{IsolationScope, SandboxIsolationKey};
use guard_store_tests::redis_server::RedisServer;

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// How many connections the server has had so far.
fn connections_so_far(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "stats"]);
    let count = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}
