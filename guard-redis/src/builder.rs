//! The guard that users name, and its builder.

pub(crate) mod into_address;
pub(crate) mod redis_guard;
