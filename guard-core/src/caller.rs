//! What callers use, and how a guard is set up for them.

pub(crate) mod config;
pub(crate) mod guard;
pub(crate) mod interrupt;
pub(crate) mod lease;
pub(crate) mod noop;
pub(crate) mod observer;
pub(crate) mod wait;
