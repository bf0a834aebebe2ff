//! Random entries, interrupts, timeouts and closes, and interrupts and deadlines that fall together with a
//! grant. The seed is printed; `GUARD_STORM_SEED` repeats a storm's choices, though not its timing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod coincidences;
mod interrupts;
mod storm;

use std::hint;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_conformance::unique_prefix;
use guard_core::{IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;

type Guard = Arc<dyn SandboxExecutionGuard>;

/// The seed of the choices is printed, and may be given.
const SEED: &str = "GUARD_STORM_SEED";
/// A storm that is stuck ends here instead of never.
const STUCK: Duration = Duration::from_secs(120);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// Two guards on one memory store, as two processes.
fn memory_guards() -> [Guard; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| {
        let builder = MemorySandboxExecutionGuard::builder().store(store.clone());
        Arc::new(builder.build().unwrap()) as Guard
    })
}

fn redis_guards(server: &RedisServer) -> [Guard; 2] {
    let prefix = unique_prefix();
    [(); 2].map(|()| {
        let builder = RedisSandboxExecutionGuard::builder(server.url()).key_prefix(&*prefix);
        Arc::new(builder.build().unwrap()) as Guard
    })
}

/// A time below `limit` microseconds.
fn micros(random: &mut Random, limit: u64) -> Duration {
    Duration::from_micros(random.below(limit))
}

/// Passes time without sleeping, which would take far longer.
fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        hint::spin_loop();
    }
}
