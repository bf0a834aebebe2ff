//! How waiters learn that a slot has changed: the server tells, and a thread listens.

mod invalidations;
mod listener;
pub(crate) mod server_wakeups;
pub(crate) mod subscribers;
pub(crate) mod subscription;
mod tracked;
pub(crate) mod worker;
