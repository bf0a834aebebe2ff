//! How a guard works, whatever its store.

pub(crate) mod backoff;
pub(crate) mod callbacks;
pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod keeper;
pub(crate) mod lease;
pub(crate) mod looks;
pub(crate) mod node_keeper;
pub(crate) mod outage;
pub(crate) mod schedule;
pub(crate) mod shared;
pub(crate) mod shield;
pub(crate) mod tending;
pub(crate) mod turns;
pub(crate) mod waiter;
pub(crate) mod worker;
