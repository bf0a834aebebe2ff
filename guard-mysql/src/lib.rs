#![doc = include_str!("../README.md")]

mod builder;
mod database;
mod error;
mod name;
mod session;

pub use builder::{MySqlGuardBuilder, MySqlSandboxExecutionGuard, MySqlStore};
pub use database::MySql;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardError, GuardObserver,
    Holder, Interrupt, IsolationScope, LostEvent, NoopGuard, OutageEvent, RuntimeContext,
    SandboxExecutionGuard, SandboxExecutionGuardExt, SandboxIsolationKey, SandboxLease, StoreError,
    Wait, WaitEvent,
};
pub use guard_session::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS};
pub use name::lock_name;
pub use session::MySqlSession;
