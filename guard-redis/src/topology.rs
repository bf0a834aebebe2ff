//! Which server has a slot: one, the master that sentinels name, or a cluster's.
//!
//! A topology is a folder here, and a constructor of the guard.

mod address;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod contract;
mod greeting;
pub(crate) mod one_server;
#[cfg(feature = "sentinel")]
pub(crate) mod sentinel;
pub(crate) mod server;
pub(crate) mod settings;
