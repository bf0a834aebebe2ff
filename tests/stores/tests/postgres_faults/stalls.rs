//! Backends that are stopped while their server goes on.

use std::process::Command;

use guard_conformance::PATIENCE;
use guard_core::{CloseOutcome, SandboxExecutionGuard};
use guard_store_tests::postgres_server::{Postgres, PostgresServer};

use crate::database_faults::stalls::{TIMEOUT, hasty, in_time};
use crate::database_faults::{enter, key, slot};

#[test]
fn a_backend_that_does_not_end_keeps_nobody_from_other_slots() {
    let server = PostgresServer::start();
    let guard = hasty::<Postgres>(&server.url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let backend = server.holder(&slot(&key("a"))).unwrap();
    let signal = |name: &str| {
        let kill = Command::new("kill").args([name, &backend]).status();
        assert!(kill.unwrap().success());
    };
    signal("-STOP");
    in_time(TIMEOUT, || {
        assert_eq!(lease.close(), CloseOutcome::Deferred)
    });
    for value in ["b", "c", "d"] {
        drop(enter(&guard, &key(value)));
    }
    signal("-CONT");
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
}
