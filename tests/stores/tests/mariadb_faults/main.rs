//! The faults that every database passes, on a real MariaDB server, and those that only it knows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
#[path = "../database_faults/mod.rs"]
mod database_faults;

mod proxies;
mod refusals;
mod sharing;

database_faults!(guard_store_tests::mariadb_server::MariaDb);
