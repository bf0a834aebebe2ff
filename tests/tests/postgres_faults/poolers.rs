//! PgBouncer in front of the server.

use guard_conformance::database::Client;
use guard_conformance::pgbouncer::PgBouncer;
use guard_conformance::postgres_server::{Postgres, PostgresServer, psql};
use guard_core::{ConfigError, GuardError, SandboxExecutionGuard};

use crate::database_faults::{builder, enter, guard, key};

#[track_caller]
fn assert_refused(error: &ConfigError) {
    assert!(!error.is_transient());
    let source = std::error::Error::source(error).unwrap().to_string();
    assert!(
        source.contains("pooler") && source.contains("session mode"),
        "{source}"
    );
}

#[test]
fn a_pooler_that_shares_backends_is_refused_at_building() {
    let server = PostgresServer::start();
    for mode in ["transaction", "statement"] {
        let pooler = PgBouncer::start(&server, mode);
        assert_refused(&builder::<Postgres>(&pooler.url()).build().unwrap_err());
    }
}

#[test]
fn a_backend_that_carries_a_lock_already_lets_nobody_work_unguarded() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::start(&server, "transaction");
    // Another program's lock is left behind on a backend that belongs to nobody.
    let mut stranded = psql(&pooler.url());
    stranded.args(["-c", "SELECT pg_try_advisory_lock(1)"]);
    assert!(stranded.output().unwrap().status.success());
    assert_refused(&builder::<Postgres>(&pooler.url()).build().unwrap_err());
}

/// The pooler gives out its backends in turn: the builder's connections meet one each, and another one later.
#[test]
fn an_entry_finds_out_that_its_backend_is_shared() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::start_with(&server, "transaction", "server_round_robin = 1");
    let busy = [(); 2].map(|()| {
        let mut busy = Client::<Postgres>::of(psql(&pooler.url()));
        busy.send("BEGIN");
        busy.ask("SELECT 1");
        busy
    });
    for mut busy in busy {
        // A transaction that is not ended would take its backend along.
        busy.send("COMMIT");
        busy.ask("SELECT 1");
    }
    let guard = builder::<Postgres>(&pooler.url()).build().unwrap();
    match guard.try_enter(&key("a")) {
        Err(GuardError::Store {
            source, transient, ..
        }) => {
            assert!(
                !transient && source.to_string().contains("session mode"),
                "{source}"
            );
        }
        other => panic!("{other:?}"),
    }
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(server.sql(locks), "0");
}

#[test]
fn a_pooler_in_session_mode_is_fine() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::start(&server, "session");
    let (pooled, direct) = (
        builder::<Postgres>(&pooler.url()).build().unwrap(),
        guard(&server),
    );
    let lease = enter(&pooled, &key("a"));
    assert!(direct.try_enter_now(&key("a")).unwrap().is_none());
    assert!(lease.renew().is_ok());
    drop(lease);
    let lease = enter(&direct, &key("a"));
    assert!(pooled.try_enter_now(&key("a")).unwrap().is_none());
    drop(lease);
    drop(enter(&pooled, &key("a")));
}
