//! The masters of a cluster.

mod map;
pub(crate) mod masters;
