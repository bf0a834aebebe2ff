//! The names of locks.

use guard_conformance::advisory_rows;
use guard_core::{Budget, CloseOutcome, LeaseStore as _, SandboxExecutionGuard, SlotName};
use guard_store_tests::database::Client;
use guard_store_tests::mariadb_server::{MariaDbServer, literal};

use crate::database_faults::{enter, guard, key};

/// Every name of the vectors means the same lock to another client as to us.
#[test]
fn every_name_of_the_vectors_is_the_same_lock_to_all() {
    let server = MariaDbServer::start();
    let guard = guard(&server);
    let mut client = Client::start(&server);
    let budget = || Budget::new(guard_conformance::PATIENCE);
    let holder = |slot: &SlotName| guard.store().holder(slot, budget()).unwrap();
    for row in advisory_rows() {
        let name = literal(&row.name);
        assert_eq!(client.ask(&format!("SELECT GET_LOCK({name}, 0)")), "1");
        let shown = holder(&row.slot).expect("the client holds it");
        let description = shown.description().unwrap();
        let begin = format!("connection {} of", client.id());
        assert!(description.starts_with(&begin), "{row:?}: {description}");
        assert_eq!(client.ask(&format!("SELECT RELEASE_LOCK({name})")), "1");
        assert!(holder(&row.slot).is_none(), "{row:?}");
    }
}

/// MariaDB tells the case of names apart, unlike MySQL; on either each of them is one slot's.
#[test]
fn slots_that_differ_by_case_are_apart_in_mariadb() {
    let server = MariaDbServer::start();
    let guard = guard(&server);
    let [upper, lower] = ["Agent", "agent"].map(|value| enter(&guard, &key(value)));
    assert!(guard.try_enter_now(&key("agent")).unwrap().is_none());
    assert_eq!(upper.close(), CloseOutcome::Released);
    assert_eq!(lower.close(), CloseOutcome::Released);
}
