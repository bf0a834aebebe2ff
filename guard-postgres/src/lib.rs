#![doc = include_str!("../README.md")]

mod builder;
mod database;
mod error;
mod number;
mod session;

pub use builder::{PostgresGuardBuilder, PostgresSandboxExecutionGuard, PostgresStore};
pub use database::Postgres;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardError, GuardObserver,
    Holder, Interrupt, IsolationScope, LostEvent, NoopGuard, OutageEvent, RuntimeContext,
    SandboxExecutionGuard, SandboxExecutionGuardExt, SandboxIsolationKey, SandboxLease, StoreError,
    Wait, WaitEvent,
};
pub use guard_session::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS};
pub use number::lock_number;
pub use session::PostgresSession;
