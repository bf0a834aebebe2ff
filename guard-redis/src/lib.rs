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

#[cfg(any(feature = "sentinel", feature = "cluster"))]
mod address;
mod answer;
mod builder;
#[cfg(feature = "cluster")]
mod cluster;
mod dial;
mod endpoint;
mod error;
mod failure;
mod fence;
mod interests;
mod into_address;
mod links;
mod listener;
mod live;
mod renewal;
mod replicas;
mod route;
mod script;
#[cfg(feature = "sentinel")]
mod sentinel;
mod servers;
mod session;
mod socket;
mod sockets;
mod source;
mod store;
mod subscription;
mod take;
#[cfg(feature = "tls-rustls")]
mod tls;
mod tracked;
mod turns;
mod unanswered;
mod wakeups;
mod wire;
mod worker;

pub use builder::{
    DEFAULT_GHOST_WINDOW, DEFAULT_POOL_SIZE, RedisGuardBuilder, RedisSandboxExecutionGuard, Wakeups,
};
/// The rest of the contract, for those who write a store or a guard of their own.
pub use guard_core;
pub use guard_core::{
    CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig, GuardError,
    GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET, LeaseToken, LostEvent,
    NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard, SandboxExecutionGuardExt,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait, WaitEvent,
};
pub use into_address::IntoAddress;
pub use store::RedisStore;
/// The client library and the pool of [`RedisSandboxExecutionGuard::from_pool`], in the versions that it takes.
pub use {r2d2, redis};
