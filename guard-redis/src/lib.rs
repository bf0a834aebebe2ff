// Of two definitions of a link the first one counts: here the pages follow the README, elsewhere they are files.
#![cfg_attr(feature = "tls-rustls", doc = "[TLS]: #tls")]
#![cfg_attr(feature = "sentinel", doc = "[Sentinel]: #sentinel")]
#![cfg_attr(feature = "cluster", doc = "[Cluster]: #cluster")]
#![doc = "[failover]: #what-a-failover-can-lose-and-what-to-set\n"]
#![doc = include_str!("../README.md")]
#![cfg_attr(feature = "tls-rustls", doc = include_str!("../docs/tls.md"))]
#![cfg_attr(feature = "sentinel", doc = include_str!("../docs/sentinel.md"))]
#![cfg_attr(feature = "cluster", doc = include_str!("../docs/cluster.md"))]
#![doc = include_str!("../docs/failover.md")]

mod builder;
mod connection;
mod protocol;
mod store;
mod topology;
mod wakeups;

pub use builder::into_address::IntoAddress;
pub use builder::redis_guard::{
    DEFAULT_GHOST_WINDOW, DEFAULT_POOL_SIZE, RedisGuardBuilder, RedisSandboxExecutionGuard,
};
pub use connection::manager::{RedisConnection, RedisConnectionManager};
pub use store::redis_store::RedisStore;
pub use wakeups::server_wakeups::Wakeups;

/// The rest of the contract, for those who write a store or a guard of their own.
pub use guard_core;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig, GuardError,
    GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET, LeaseToken, LostEvent,
    NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait, WaitEvent,
};
/// The client library of [`IntoAddress`] and the pool of [`RedisSandboxExecutionGuard::from_pool`], in the versions that
/// they take.
pub use {r2d2, redis};
