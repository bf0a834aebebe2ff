//! Sandbox execution guards: the contract, the engine, and the seam that stores implement.
//!
//! An agent platform runs untrusted or long work inside sandboxes. Calls that resolve to the same sandbox
//! slot have to use it one after the other. A [`SandboxExecutionGuard`] hands out one [`SandboxLease`] a
//! slot, across threads, processes and hosts, and frees the slot again whatever happens to its holder.
//!
//! This crate knows no store and does no I/O. Users take a guard from a store's crate, such as
//! `guard-memory` or `guard-redis`, and meet these types through it:
//!
//! - **callers**: [`SandboxExecutionGuard`], [`SandboxExecutionGuardExt::run`], [`SandboxIsolationKey`],
//!   [`Wait`], [`Interrupt`], [`SandboxLease`], [`GuardError`];
//! - **whoever builds a guard**: the store's builder, [`ConfigError`];
//! - **authors of stores**: [`LeaseStore`] and its answers, [`LeaseGuard`], [`guard_settings!`],
//!   [`forward_guard!`].
//!
//! ```text
//!  caller ──▶ SandboxExecutionGuard        implemented once, by
//!                 │
//!             LeaseGuard<S>                gate → attempt → wait → lease
//!                 │ asks for small steps that never wait
//!             LeaseStore                   acquire · renew · release · hand_over · …
//! ```
//!
//! # Following an entry
//!
//! A key ([`key`](SandboxIsolationKey)) becomes a slot's name ([`KeyPrefix::slot`]). The entry queues in
//! its process's gate, first come, first served. In front, it asks the store for the slot; while somebody
//! else holds it, it parks until a wake-up, the holder's TTL, the next look, its deadline or an interrupt.
//! Granted, it is a lease; closed or dropped, the slot is free.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod backoff;
mod callbacks;
mod care;
mod clock;
mod config;
mod engine;
mod entry;
mod error;
mod gate;
mod guard;
mod held;
mod interrupt;
mod keeper;
mod key;
mod lane;
mod lease;
mod lease_guard;
mod noop;
mod observer;
mod outage;
mod random;
mod releases;
mod row;
mod shards;
mod shield;
mod slot;
mod store;
mod sync;
mod text;
mod token;
mod ttl;
mod wait;
mod waiter;
mod waker;
mod wards;
mod worker;

pub use clock::{Clock, JumpListener, SystemClock};
pub use config::{
    DEFAULT_MAX_HAND_OVER_TIME, DEFAULT_MAX_HAND_OVERS, DEFAULT_OPERATION_TIMEOUT,
    DEFAULT_OUTAGE_TOLERANCE, DEFAULT_RETRY_INTERVAL, GuardConfig,
};
pub use error::{ConfigError, GuardError, StoreError};
pub use guard::{SandboxExecutionGuard, SandboxExecutionGuardExt};
pub use interrupt::Interrupt;
pub use key::{GLOBAL_VALUE, IsolationScope, MAX_VALUE_BYTES, RuntimeContext, SandboxIsolationKey};
pub use lease::{CloseOutcome, SandboxLease};
pub use lease_guard::LeaseGuard;
pub use noop::NoopGuard;
pub use observer::{CloseEvent, EnterEvent, GuardObserver, LostEvent, OutageEvent, WaitEvent};
pub use shards::Shards;
pub use slot::{CarriedHash, DEFAULT_KEY_PREFIX, KeyPrefix, SlotMap, SlotName};
pub use store::{
    Acquired, Capabilities, HandedOver, Holder, LeaseStore, NodeId, Registration, Released,
    Renewed, Watch,
};
pub use text::printable;
pub use token::{FencingToken, LeaseToken, OwnerLabel};
pub use ttl::{Budget, LeaseTtl};
pub use wait::Wait;
pub use waker::Waker;

/// The target of this library's log lines.
pub const LOG_TARGET: &str = "sandbox_guard";
