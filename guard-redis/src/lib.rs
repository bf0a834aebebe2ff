#![doc = include_str!("../README.md")]

mod builder;
mod connector;
mod dial;
mod error;
mod fence;
mod interests;
mod links;
mod listener;
mod replicas;
mod script;
mod session;
mod socket;
mod store;
#[cfg(feature = "tls-rustls")]
mod tls;
mod tracked;
mod unanswered;
mod wakeups;

pub use builder::{
    DEFAULT_GHOST_WINDOW, DEFAULT_POOL_SIZE, RedisGuardBuilder, RedisSandboxExecutionGuard, Wakeups,
};
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardError, GuardObserver,
    Holder, Interrupt, IsolationScope, LostEvent, NoopGuard, OutageEvent, RuntimeContext,
    SandboxExecutionGuard, SandboxExecutionGuardExt, SandboxIsolationKey, SandboxLease, StoreError,
    Wait, WaitEvent,
};
pub use store::RedisStore;
