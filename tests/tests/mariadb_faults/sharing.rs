//! Programs that use the same names share the slots.

use guard_conformance::mariadb_server::MariaDbServer;
use guard_conformance::{Waiting, advisory_rows, eventually};
use guard_mysql::{CloseOutcome, MySqlSandboxExecutionGuard, SandboxExecutionGuard};

use crate::mariadb_backend::{Session, literal};
use crate::{blocked, enter, guard, key};

/// A guard with the prefix that other programs use.
fn default_guard(server: &MariaDbServer) -> (MySqlSandboxExecutionGuard, String) {
    let guard = guard(server);
    let name = guard.lock_name(&key("code-agent"));
    assert_eq!(name, advisory_rows()[0].name);
    (guard, name)
}

fn unlock(client: &mut Session, name: &str) {
    let unlock = format!("SELECT RELEASE_LOCK({})", literal(name));
    assert_eq!(client.ask(&unlock), "1");
}

#[test]
fn a_lock_of_another_client_keeps_us_out_until_it_is_freed() {
    let server = MariaDbServer::start();
    let (guard, name) = default_guard(&server);
    let mut client = Session::start(&server);
    assert!(client.lock(&name));
    assert!(guard.try_enter_now(&key("code-agent")).unwrap().is_none());
    let holder = guard.holder(&key("code-agent")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some("mysql"));
    let description = holder.description().unwrap();
    let begin = format!("connection {} of root@", client.number);
    assert!(description.starts_with(&begin), "{description}");

    let waiting = Waiting::start(move || guard.try_enter(&key("code-agent")));
    unlock(&mut client, &name);
    assert!(waiting.result().unwrap().is_held());
}

#[test]
fn our_lease_keeps_another_client_out_until_it_is_closed() {
    let server = MariaDbServer::start();
    let (guard, name) = default_guard(&server);
    let lease = enter(&guard, &key("code-agent"));
    let mut client = Session::start(&server);
    assert!(!client.lock(&name));
    client.send(&format!("SELECT GET_LOCK({}, 30)", literal(&name)));
    let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
    eventually("the client waits", || server.sql(waits) == "1");
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_eq!(client.answer(), "1");
    assert!(guard.try_enter_now(&key("code-agent")).unwrap().is_none());
    assert_eq!(blocked(&server), 0);
}

/// Every name of the vectors means the same lock to another client as to us.
#[test]
fn every_name_of_the_vectors_is_the_same_lock_to_all() {
    let server = MariaDbServer::start();
    let guard = guard(&server);
    let mut client = Session::start(&server);
    let store = guard.store();
    for row in advisory_rows() {
        assert!(client.lock(&row.name), "{row:?}");
        let holder = guard_core::LeaseStore::holder(store, &row.slot, crate::budget());
        let holder = holder.unwrap().expect("the client holds it");
        let description = holder.description().unwrap();
        let begin = format!("connection {} of", client.number);
        assert!(description.starts_with(&begin), "{row:?}: {description}");
        unlock(&mut client, &row.name);
        let holder = guard_core::LeaseStore::holder(store, &row.slot, crate::budget());
        assert!(holder.unwrap().is_none(), "{row:?}");
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
