#![doc = include_str!("../README.md")]

mod builder;
mod connector;
mod dial;
mod error;
mod links;
mod script;
mod session;
mod store;

pub use builder::{DEFAULT_POOL_SIZE, RedisGuardBuilder, RedisSandboxExecutionGuard};
pub use guard_core::{
    CloseOutcome, ConfigError, FencingToken, GuardError, Holder, Interrupt, IsolationScope,
    NoopGuard, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, StoreError, Wait,
};
pub use store::RedisStore;
