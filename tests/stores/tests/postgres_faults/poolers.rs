//! PgBouncer in front of the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use guard_core::{ConfigError, GuardError, SandboxExecutionGuard};
use guard_store_tests::database::Client;
use guard_store_tests::pgbouncer::PgBouncer;
use guard_store_tests::postgres_server::{Postgres, PostgresServer, psql};

use crate::database_faults::{builder, enter, guard, key, slot};

const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

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

/// In session mode no two of our connections meet: it is the lock that gives the backend away.
#[test]
fn a_backend_that_carries_a_lock_already_lets_nobody_work_unguarded() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::start_with(&server, "session", "server_reset_query =");
    drop(
        builder::<Postgres>(&PgBouncer::start(&server, "session").url())
            .build()
            .unwrap(),
    );
    // Another program's lock is left behind on a backend that belongs to nobody.
    let mut stranded = psql(&pooler.url());
    stranded.args(["-c", "SELECT pg_try_advisory_lock(1)"]);
    assert!(stranded.output().unwrap().status.success());
    assert_refused(&builder::<Postgres>(&pooler.url()).build().unwrap_err());
}

/// The pooler gives out its backends in turn: the builder's connections meet one each, and another one later.
#[test]
fn a_pooler_that_gives_out_its_backends_in_turn_is_refused_at_building() {
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
    assert_refused(&builder::<Postgres>(&pooler.url()).build().unwrap_err());
    assert_eq!(server.sql(LOCKS), "0");
}

/// Other clients take the backends in between, so that our connections need not meet.
#[test]
fn no_builder_gets_past_a_busy_pooler_and_no_strangers_statement_is_cut_off() {
    const STRANGERS: usize = 6;
    const BUILDERS: usize = 60;
    let server = PostgresServer::start();
    let pooler = PgBouncer::start_with(&server, "transaction", "default_pool_size = 4");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let strangers: Vec<_> = (0..STRANGERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut stranger = Client::<Postgres>::of(psql(&pooler.url()));
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(stranger.ask("SELECT 1 FROM pg_sleep(0.0005)"), "1");
                    }
                })
            })
            .collect();
        let build = |_| builder::<Postgres>(&pooler.url()).build();
        let built: Vec<_> = (0..BUILDERS).map(build).collect();
        stop.store(true, Ordering::Relaxed);
        for stranger in strangers {
            stranger.join().unwrap();
        }
        for built in built {
            assert_refused(&built.unwrap_err());
        }
    });
    assert_eq!(server.sql(LOCKS), "0");
}

/// The pooler is set to share backends while a lease is held, and gives the lease's to somebody else.
#[test]
fn a_lease_whose_backend_is_another_one_is_lost() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::start(&server, "session");
    let guard = builder::<Postgres>(&pooler.url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    pooler.set_mode("transaction");
    assert!(lease.renew().is_ok());
    let backend = server.holder(&slot(&key("a")));
    let mut stranger = Client::<Postgres>::of(psql(&pooler.url()));
    stranger.send("BEGIN");
    assert_eq!(Some(stranger.ask("SELECT pg_backend_pid()")), backend);
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    assert!(!lease.is_held());
    assert_eq!(stranger.ask("SELECT 1"), "1");
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
