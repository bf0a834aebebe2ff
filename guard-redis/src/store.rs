//! The store: leases, by what is said to the servers of a topology.

mod acquisition;
pub(crate) mod redis_store;
mod renewal;
mod replicas;
