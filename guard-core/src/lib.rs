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

mod base;
mod caller;
mod engine;
mod lease_guard;
mod store;

// For callers.
pub use base::error::{ConfigError, GuardError};
pub use base::key::{GLOBAL_VALUE, MAX_VALUE_BYTES, RuntimeContext, SandboxIsolationKey};
pub use base::scope::IsolationScope;
pub use base::token::{FencingToken, LeaseToken};
pub use caller::config::{
    DEFAULT_MAX_HAND_OVER_TIME, DEFAULT_MAX_HAND_OVERS, DEFAULT_OPERATION_TIMEOUT,
    DEFAULT_OUTAGE_TOLERANCE, DEFAULT_RETRY_INTERVAL, GuardConfig,
};
pub use caller::guard::{SandboxExecutionGuard, SandboxExecutionGuardExt};
pub use caller::interrupt::Interrupt;
pub use caller::lease::{CloseOutcome, SandboxLease};
pub use caller::noop::NoopGuard;
pub use caller::observer::{
    CloseEvent, EnterEvent, GuardObserver, LostEvent, OutageEvent, WaitEvent,
};
pub use caller::wait::Wait;
pub use store::holder::Holder;

// For authors of stores.
pub use base::clock::{Clock, JumpListener, SystemClock};
pub use base::error::StoreError;
pub use base::slot::{DEFAULT_KEY_PREFIX, KeyPrefix, Shards, SlotMap, SlotName};
pub use base::text::printable;
pub use base::time::{Budget, LeaseTtl};
pub use base::token::OwnerLabel;
pub use lease_guard::LeaseGuard;
pub use store::contract::{
    Acquired, Capabilities, HandedOver, LeaseStore, NodeId, Released, Renewed,
};
pub use store::watch::{Registration, Subscriber, Watch};

/// The target of this library's log lines.
pub const LOG_TARGET: &str = "sandbox_guard";
