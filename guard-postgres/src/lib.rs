#![doc = include_str!("../README.md")]

mod builder;
mod database;
mod error;
mod line;
mod number;
mod owner;
mod session;
mod timeouts;

pub use builder::{PostgresGuardBuilder, PostgresSandboxExecutionGuard, PostgresStore};
pub use database::Postgres;
/// The rest of the contract, for those who write a store or a guard of their own.
pub use guard_core;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig, GuardError,
    GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET, LeaseToken, LostEvent,
    NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait, WaitEvent,
};
pub use guard_session::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS};
pub use number::lock_number;
pub use session::PostgresSession;
/// The client library of [`PostgresSandboxExecutionGuard::with_config`], in the version that it takes.
pub use tokio_postgres;
