//! Ways to the server that are not plain TCP connections of one's own.

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{CloseOutcome, ConfigError, GuardError, SandboxExecutionGuard};
use guard_store_tests::database::Database as _;
use guard_store_tests::mariadb_server::{MariaDb, MariaDbServer};
use guard_store_tests::multiplexer::Multiplexer;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::database_faults::{blocked, builder, enter, guard, key, slot};

#[track_caller]
fn assert_refused(error: &ConfigError) {
    assert!(!error.is_transient());
    let source = std::error::Error::source(error).unwrap().to_string();
    assert!(source.contains("multiplexes"), "{source}");
}

#[test]
fn a_proxy_that_gives_two_connections_one_session_is_refused_at_building() {
    let server = MariaDbServer::start();
    let proxy = Multiplexer::start(server.port(), 1);
    assert_refused(
        &builder::<MariaDb>(&MariaDb::url(proxy.port()))
            .build()
            .unwrap_err(),
    );
}

#[test]
fn a_session_that_carries_a_lock_already_lets_nobody_work_unguarded() {
    let server = MariaDbServer::start();
    let proxy = Multiplexer::start(server.port(), 2);
    // Another program's lock is left behind in a session that belongs to nobody.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let options = mysql_async::Opts::from_url(&MariaDb::url(proxy.port())).unwrap();
        let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
        let mut stranger = Conn::new(options).await.unwrap();
        let locked: Option<u8> = stranger
            .query_first("SELECT GET_LOCK('x', 0)")
            .await
            .unwrap();
        assert_eq!(locked, Some(1));
        stranger.disconnect().await.unwrap();
    });
    assert_ne!(server.sql("SELECT IS_USED_LOCK('x')"), "NULL");
    assert_refused(
        &builder::<MariaDb>(&MariaDb::url(proxy.port()))
            .build()
            .unwrap_err(),
    );
}

#[test]
fn an_entry_finds_out_that_its_session_is_another_one() {
    let server = MariaDbServer::start();
    let proxy = Multiplexer::start(server.port(), 2);
    let guard = builder::<MariaDb>(&MariaDb::url(proxy.port()))
        .build()
        .unwrap();
    proxy.shift();
    match guard.try_enter(&key("a")) {
        Err(GuardError::Store {
            source, transient, ..
        }) => {
            let source = source.to_string();
            assert!(!transient && source.contains("multiplexes"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(server.holder(&slot(&key("a"))), None);
}

#[test]
fn a_lease_whose_session_is_another_one_is_lost() {
    let server = MariaDbServer::start();
    let proxy = Multiplexer::start(server.port(), 2);
    let (shifted, near) = (
        builder::<MariaDb>(&MariaDb::url(proxy.port()))
            .build()
            .unwrap(),
        guard(&server),
    );
    let lease = enter(&shifted, &key("a"));
    assert!(lease.renew().is_ok());
    proxy.shift();
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    assert!(!lease.is_held());
    // What it leaves behind goes with the proxy at the latest.
    drop(proxy);
    drop(near.try_enter_for(&key("a"), PATIENCE).unwrap());
}

#[test]
fn a_socket_does_as_well() {
    let server = MariaDbServer::start();
    let (near, far) = (
        builder::<MariaDb>(&server.socket_url()).build().unwrap(),
        guard(&server),
    );
    let lease = enter(&far, &key("a"));
    let wait = {
        let near = near.clone();
        Waiting::start(move || near.try_enter(&key("a")).map(drop))
    };
    eventually("it waits at the server", || blocked(&server) == 1);
    wait.interrupt();
    assert!(matches!(wait.result(), Err(GuardError::Interrupted { .. })));
    assert_eq!(blocked(&server), 0);
    assert_eq!(lease.close(), CloseOutcome::Released);
    let lease = enter(&near, &key("a"));
    assert!(far.try_enter_now(&key("a")).unwrap().is_none());
    assert!(far.force_release(&key("a")).unwrap().is_some());
    assert!(lease.renew().is_err());
    drop(enter(&far, &key("a")));
}
