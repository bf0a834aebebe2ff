//! The guards as users make them, and a section: enter + close.

use std::time::Duration;

use guard_core::{IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_memory::MemorySandboxExecutionGuard;
use guard_redis::{RedisGuardBuilder, RedisSandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

/// The TTL of everything that is measured, peers included; nothing here lasts that long.
pub const TTL: Duration = Duration::from_secs(30);

/// A key of the scope that an agent platform uses most.
#[must_use]
pub fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// A Redis guard that is yet to be built.
pub fn redis(server: &RedisServer) -> RedisGuardBuilder {
    let builder = RedisSandboxExecutionGuard::builder(server.url()).lease_ttl(TTL);
    match server.certificates() {
        Some(certificates) => certificates.introduce(builder),
        None => builder,
    }
}

/// The same with the bounds on hand-over lifted.
pub fn redis_unbounded(server: &RedisServer) -> RedisGuardBuilder {
    redis(server)
        .max_hand_overs(u32::MAX)
        .max_hand_over_time(Duration::MAX)
}

/// A guard in memory.
#[must_use]
pub fn memory() -> MemorySandboxExecutionGuard {
    let guard = MemorySandboxExecutionGuard::builder().lease_ttl(TTL);
    guard.build().unwrap()
}

/// Enters a slot and closes the lease.
pub fn section<G: SandboxExecutionGuard>(guard: G, value: &str) -> impl FnMut() + use<G> {
    let key = key(value);
    move || {
        guard.try_enter(&key).unwrap().close();
    }
}
