//! Programs that use the same numbers share the slots.

use guard_conformance::postgres_server::PostgresServer;
use guard_conformance::{Waiting, advisory_rows, eventually};
use guard_postgres::{CloseOutcome, PostgresSandboxExecutionGuard, SandboxExecutionGuard};

use crate::postgres_backend::Session;
use crate::{blocked, enter, guard, key};

/// A guard with the prefix that other programs use.
fn default_guard(server: &PostgresServer) -> (PostgresSandboxExecutionGuard, i64) {
    let guard = guard(server);
    let number = guard.lock_number(&key("code-agent"));
    assert_eq!(number, advisory_rows()[0].number);
    (guard, number)
}

#[test]
fn a_lock_of_psql_keeps_us_out_until_it_is_freed() {
    let server = PostgresServer::start();
    let (guard, number) = default_guard(&server);
    let mut psql = Session::start(&server);
    assert_eq!(
        psql.ask(&format!("SELECT pg_try_advisory_lock({number})")),
        "t"
    );
    assert!(guard.try_enter_now(&key("code-agent")).unwrap().is_none());
    let holder = guard.holder(&key("code-agent")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some("psql"));
    let description = format!("backend {} from 127.0.0.1", psql.backend);
    assert_eq!(holder.description(), Some(&*description));
    assert!(holder.since().is_some());

    let waiting = Waiting::start(move || guard.try_enter(&key("code-agent")));
    assert_eq!(
        psql.ask(&format!("SELECT pg_advisory_unlock({number})")),
        "t"
    );
    assert!(waiting.result().unwrap().is_held());
}

#[test]
fn our_lease_keeps_psql_out_until_it_is_closed() {
    let server = PostgresServer::start();
    let (guard, number) = default_guard(&server);
    let lease = enter(&guard, &key("code-agent"));
    let mut psql = Session::start(&server);
    assert_eq!(
        psql.ask(&format!("SELECT pg_try_advisory_lock({number})")),
        "f"
    );
    psql.send(&format!("SELECT pg_advisory_lock({number}) IS NOT NULL"));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'";
    eventually("psql waits", || server.sql(waits) == "1");
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_eq!(psql.answer(), "t");
    assert!(guard.try_enter_now(&key("code-agent")).unwrap().is_none());
    assert_eq!(blocked(&server), 0);
}
