//! The suite on a real MariaDB server, without waiting in the database.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mariadb_backend;

use std::process::ExitCode;

use mariadb_backend::MariaDb;

fn main() -> ExitCode {
    guard_conformance::run(MariaDb::start("polled MariaDB", |builder| {
        builder.wait_connections(0)
    }))
}
