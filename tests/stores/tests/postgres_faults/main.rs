//! The faults that every database passes, on a real PostgreSQL server, and those that only it knows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
#[path = "../database_faults/mod.rs"]
mod database_faults;

mod opening;
mod poolers;
mod refusals;
mod sharing;
mod stalls;
mod standby;

database_faults!(guard_store_tests::postgres_server::Postgres);
