//! What a store implements.

pub(crate) mod contract;
pub(crate) mod holder;
pub(crate) mod watch;
