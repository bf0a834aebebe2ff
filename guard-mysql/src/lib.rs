#![doc = include_str!("../README.md")]

mod builder;
mod database;
mod error;
mod line;
mod name;
mod session;

pub use builder::{MySqlGuardBuilder, MySqlSandboxExecutionGuard, MySqlStore};
pub use database::MySql;
/// The rest of the contract, for those who write a store or a guard of their own.
pub use guard_core;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig, GuardError,
    GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET, LeaseToken, LostEvent,
    NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait, WaitEvent,
};
pub use guard_session::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS};
/// The client library of [`MySqlSandboxExecutionGuard::with_options`], in the version that it takes.
pub use mysql_async;
pub use name::lock_name;
pub use session::MySqlSession;
