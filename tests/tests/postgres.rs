//! The suite on a real PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod postgres_backend;

use std::process::ExitCode;

use postgres_backend::Postgres;

fn main() -> ExitCode {
    guard_conformance::run(Postgres::start("PostgreSQL", |builder| builder))
}
