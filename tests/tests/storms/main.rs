//! Random entries, interrupts, timeouts and closes, and interrupts and deadlines that fall together with a
//! grant. The seed is printed; `GUARD_STORM_SEED` repeats a storm's choices, though not its timing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod coincidences;
mod interrupts;
mod storm;

use std::env;
use std::hint;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_conformance::redis_server::RedisServer;
use guard_conformance::unique_prefix;
use guard_core::{IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};
use guard_redis::RedisSandboxExecutionGuard;

type Guard = Arc<dyn SandboxExecutionGuard>;

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

/// A small generator of our own, so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn seeded() -> u64 {
        let seed = env::var("GUARD_STORM_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
        let seed = seed.unwrap_or(now as u64);
        println!("GUARD_STORM_SEED={seed}");
        seed
    }

    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    fn micros(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit))
    }
}

/// Passes time without sleeping, which would take far longer.
fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        hint::spin_loop();
    }
}
