#![doc = include_str!("../README.md")]

mod builder;
mod connector;
mod dial;
mod error;
mod fence;
mod interests;
mod links;
mod listener;
mod script;
mod session;
mod store;
mod tracked;
mod unanswered;
mod wakeups;

pub use builder::{
    DEFAULT_GHOST_WINDOW, DEFAULT_POOL_SIZE, RedisGuardBuilder, RedisSandboxExecutionGuard, Wakeups,
};
pub use guard_core::{
    CloseOutcome, ConfigError, FencingToken, GuardError, Holder, Interrupt, IsolationScope,
    NoopGuard, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, StoreError, Wait,
};
pub use store::RedisStore;
