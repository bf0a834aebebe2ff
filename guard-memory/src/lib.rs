//! The in-memory store of sandbox execution guards.
//!
//! It is the reference that every other store is held against, and what unit tests link: no server, the
//! same rules, and controls for what is hard to bring about elsewhere.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use guard_memory::{IsolationScope, ManualClock, MemorySandboxExecutionGuard, MemoryStore};
//! use guard_memory::{SandboxExecutionGuard, SandboxIsolationKey};
//!
//! let clock = ManualClock::new();
//! let store = MemoryStore::with_clock(clock.clone());
//! let guard: Arc<dyn SandboxExecutionGuard> =
//!     Arc::new(MemorySandboxExecutionGuard::builder().store(store).build()?);
//!
//! let key = SandboxIsolationKey::new(IsolationScope::Agent, "code-agent")?;
//! let lease = guard.try_enter(&key)?;
//! assert!(guard.try_enter_now(&key)?.is_none(), "held");
//!
//! clock.advance(Duration::from_secs(30 * 60)); // the TTL passes without a sleep
//! assert!(!lease.is_held());
//! assert!(guard.try_enter_now(&key)?.is_some(), "free again");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! Everything that a store can: TTL and expiry, fencing tokens (always on), hand-over, wake-ups, and
//! leases that are never valid twice. Guards made from clones of one [`MemoryStore`] share their slots, as
//! several processes share one Redis.
//!
//! # What it cannot
//!
//! It is one process's memory: nothing is shared with other processes, and everything is gone when the
//! last clone is. The suite's cases that play with a second process do not apply; all others pass.

mod clock;
mod guard;
mod slots;
mod store;

pub use clock::ManualClock;
pub use guard::{MemoryGuardBuilder, MemorySandboxExecutionGuard};
/// The rest of the contract, for those who write a store or a guard of their own.
pub use guard_core;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig, GuardError,
    GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET, LeaseToken, LostEvent,
    NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait, WaitEvent,
};
pub use slots::Fault;
pub use store::MemoryStore;
