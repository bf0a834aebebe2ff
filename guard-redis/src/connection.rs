//! Connections: opened, bounded, used, pooled. Which server they lead to is told by a [route](route).

pub(crate) mod dial;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod identity;
pub(crate) mod manager;
pub(crate) mod open_connection;
pub(crate) mod open_sockets;
pub(crate) mod operation;
pub(crate) mod pool;
pub(crate) mod route;
mod semaphore;
mod socket;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls;
pub(crate) mod unanswered;
pub(crate) mod wire;
