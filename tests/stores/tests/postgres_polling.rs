//! The suite on a real PostgreSQL server, without waiting in the database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::ExitCode;

use guard_store_tests::database::DatabaseBackend;
use guard_store_tests::postgres_server::Postgres;

fn main() -> ExitCode {
    let lease_holder = env!("CARGO_BIN_EXE_lease_holder");
    guard_conformance::run(DatabaseBackend::<Postgres>::start(
        "polled PostgreSQL",
        lease_holder,
        |builder| builder.wait_connections(0),
    ))
}
