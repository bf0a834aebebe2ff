//! What the builder and the server refuse, and that no password shows.

use std::error::Error as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use guard_conformance::postgres_server::{PostgresServer, url};
use guard_postgres::{
    ConfigError, GuardError, PostgresSandboxExecutionGuard, SandboxExecutionGuard,
};

use crate::{SLACK, builder, enter, key};

const PASSWORD: &str = "swordfish";

#[test]
fn an_address_that_cannot_be_read_is_a_setting() {
    for address in [
        "",
        "nonsense",
        "postgres://[",
        &format!("what://u:{PASSWORD}@h"),
    ] {
        let builder = PostgresSandboxExecutionGuard::builder(address);
        let shown = format!("{builder:?}");
        let error = builder.build().unwrap_err();
        let text = format!("{error} {error:?} {shown}");
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(!error.is_transient(), "{text}");
    }
}

#[test]
fn what_is_wrong_with_an_address_is_said() {
    for (address, expected) in [
        ("", "it names no host"),
        ("user=app", "it names no host"),
        ("nonsense", "the form is postgres://"),
        ("postgres://u@h/d?sslmode=verify-full", "`sslmode`"),
        ("postgres://u@h/d?sslmode=require", "`sslmode=require`"),
        ("postgres://u@h/d?unheard=1", "an option that is not known"),
        (
            "host=h user=u password=sword fish=1",
            "an option that is not known",
        ),
    ] {
        let error = PostgresSandboxExecutionGuard::builder(address).build();
        let error = error.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("setting `address`"), "{text}");
        assert!(text.contains(expected), "{expected} not in {text}");
        assert!(!text.contains("fish"), "{text}");
    }
}

#[test]
fn wrong_settings_are_refused_by_name() {
    let error = builder(&url(1)).pool_size(0).build().unwrap_err();
    assert!(error.to_string().contains("pool_size"));
}

#[test]
fn nobody_there_and_nobody_who_answers_are_transient() {
    let refused = builder(&url(1)).build().unwrap_err();
    assert!(matches!(&refused, ConfigError::Connect { .. }) && refused.is_transient());
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = url(silent.local_addr().unwrap().port());
    let timeout = Duration::from_millis(300);
    let before = Instant::now();
    let error = builder(&address)
        .operation_timeout(timeout)
        .build()
        .unwrap_err();
    assert!(before.elapsed() < timeout + SLACK);
    assert!(error.is_transient(), "{error:?}");
}

#[test]
fn a_login_that_is_refused_is_permanent_and_shows_no_password() {
    let server = PostgresServer::start();
    server.sql(&format!("CREATE ROLE limited LOGIN PASSWORD '{PASSWORD}'"));
    let address = |user: &str, database: &str| {
        format!(
            "postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}",
            server.port()
        )
    };
    for address in [address("nobody", "postgres"), address("limited", "nothing")] {
        let error = builder(&address).build().unwrap_err();
        let source = error.source().unwrap();
        let text = format!("{error} {error:?} {source} {:?}", builder(&address));
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(matches!(&error, ConfigError::Connect { .. }) && !error.is_transient());
    }
    // A role without any rights is enough.
    let guard = builder(&address("limited", "postgres")).build().unwrap();
    let lease = enter(&guard, &key("a"));
    assert!(guard.holder(&key("a")).unwrap().is_some());
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(lease.renew().is_err());
}

#[test]
fn too_many_connections_are_transient_and_no_answer_about_the_slot() {
    let server = PostgresServer::start();
    server.sql("CREATE ROLE limited LOGIN CONNECTION LIMIT 2");
    let address = format!("postgres://limited@127.0.0.1:{}/postgres", server.port());
    let guard = builder(&address)
        .outage_tolerance(Duration::ZERO)
        .build()
        .unwrap();
    let _leases = [enter(&guard, &key("a")), enter(&guard, &key("b"))];
    match guard.try_enter_now(&key("c")) {
        Err(error @ GuardError::Store { .. }) => assert!(error.is_transient(), "{error:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_ends_idle_sessions_does_not_end_ours() {
    let server = PostgresServer::start_with(&[
        "idle_session_timeout=300",
        "statement_timeout=300",
        "lock_timeout=100",
    ]);
    let guard = builder(&server.url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let other = guard.clone();
    let wait = guard_conformance::Waiting::start(move || other.try_enter(&key("a")).map(drop));
    std::thread::sleep(Duration::from_secs(1));
    assert!(lease.renew().is_ok() && lease.is_held());
    drop(lease);
    wait.result().unwrap();
}
