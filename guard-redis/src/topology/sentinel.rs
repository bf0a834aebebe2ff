//! The master that sentinels name.

mod news;
mod sentinels;
pub(crate) mod watched_master;
