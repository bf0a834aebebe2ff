//! The suite on a real MariaDB server, without waiting in the database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::ExitCode;

use guard_store_tests::database::DatabaseBackend;
use guard_store_tests::mariadb_server::MariaDb;

fn main() -> ExitCode {
    let lease_holder = env!("CARGO_BIN_EXE_lease_holder");
    guard_conformance::run(DatabaseBackend::<MariaDb>::start(
        "polled MariaDB",
        lease_holder,
        |builder| builder.wait_connections(0),
    ))
}
