//! The suite on a real PostgreSQL server, without waiting in the database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod postgres_backend;

use std::process::ExitCode;

use postgres_backend::Postgres;

fn main() -> ExitCode {
    guard_conformance::run(Postgres::start("polled PostgreSQL", |builder| {
        builder.wait_connections(0)
    }))
}
