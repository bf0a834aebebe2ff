//! What the builder and the server refuse, and that no password shows.

use std::error::Error as _;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{Waiting, eventually};
use guard_core::{ConfigError, GuardError, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database};

use super::{SLACK, blocked, builder, enter, guard, key, slot};

const PASSWORD: &str = "swordfish";

pub fn an_address_that_cannot_be_read_is_a_setting<D: Database>() {
    let with_password = format!("what://u:{PASSWORD}@h");
    for address in D::UNREADABLE.iter().copied().chain([&*with_password]) {
        let error = builder::<D>(address).build().unwrap_err();
        let text = format!("{error} {error:?} {}", D::shown(address));
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(!error.is_transient(), "{text}");
    }
}

pub fn wrong_settings_are_refused_by_name<D: Database>() {
    let error = builder::<D>(&D::url(1)).pool_size(0).build().unwrap_err();
    assert!(error.to_string().contains("pool_size"));
}

pub fn nobody_there_and_nobody_who_answers_are_transient<D: Database>() {
    let refused = builder::<D>(&D::url(1)).build().unwrap_err();
    assert!(matches!(&refused, ConfigError::Connect { .. }) && refused.is_transient());
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = D::url(silent.local_addr().unwrap().port());
    let timeout = Duration::from_millis(300);
    let before = Instant::now();
    let error = builder::<D>(&address)
        .operation_timeout(timeout)
        .build()
        .unwrap_err();
    assert!(before.elapsed() < timeout + SLACK);
    assert!(error.is_transient(), "{error:?}");
}

pub fn a_login_that_is_refused_is_permanent_and_shows_no_password<D: Database>() {
    let server = Daemon::<D>::start();
    server.sql(&D::create_user("limited", PASSWORD, 100));
    let address = |user: &str, database: &str| {
        D::address(&format!("{user}:{PASSWORD}"), server.port(), database)
    };
    for address in [
        address("nobody", D::DATABASE),
        address("limited", "/nothing"),
    ] {
        let error = builder::<D>(&address).build().unwrap_err();
        let source = error.source().unwrap();
        let text = format!("{error} {error:?} {source} {}", D::shown(&address));
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(matches!(&error, ConfigError::Connect { .. }) && !error.is_transient());
    }
    // An account without any rights is enough.
    let guard = builder::<D>(&address("limited", D::DATABASE));
    let guard = guard.build().unwrap();
    let lease = enter(&guard, &key("a"));
    assert!(guard.holder(&key("a")).unwrap().is_some());
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(lease.renew().is_err());
}

pub fn too_many_connections_are_transient_and_no_answer_about_the_slot<D: Database>() {
    let server = Daemon::<D>::start();
    server.sql(&D::create_user("limited", PASSWORD, 2));
    let user = format!("limited:{PASSWORD}");
    let guard = builder::<D>(&D::address(&user, server.port(), D::DATABASE))
        .outage_tolerance(Duration::ZERO)
        .build()
        .unwrap();
    let _leases = [enter(&guard, &key("a")), enter(&guard, &key("b"))];
    match guard.try_enter_now(&key("c")) {
        Err(error @ GuardError::Store { .. }) => assert!(error.is_transient(), "{error:?}"),
        other => panic!("{other:?}"),
    }
}

pub fn a_holder_that_one_has_no_right_to_end_is_an_error_that_names_the_right<D: Database>() {
    let server = Daemon::<D>::start();
    server.sql(&D::create_user("limited", PASSWORD, 100));
    let user = format!("limited:{PASSWORD}");
    let guard = builder::<D>(&D::address(&user, server.port(), D::DATABASE));
    let guard = guard.build().unwrap();
    let mut other = Client::start(&server);
    assert!(other.lock(&slot(&key("a"))));
    match guard.force_release(&key("a")) {
        Err(GuardError::Store { source, .. }) => {
            let source = source.to_string();
            let right = ["pg_signal_backend", "CONNECTION ADMIN"];
            assert!(right.iter().any(|right| source.contains(right)), "{source}");
        }
        outcome => panic!("{outcome:?}"),
    }
    assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
}

pub fn a_server_that_ends_idle_sessions_and_long_statements_does_not_end_ours<D: Database>() {
    let server = Daemon::<D>::start_with(D::IMPATIENT);
    let (guard, other) = (guard(&server), guard(&server));
    let lease = enter(&guard, &key("a"));
    let wait = Waiting::start(move || other.try_enter(&key("a")).map(drop));
    eventually("it waits at the server", || blocked(&server) == 1);
    let statement = || server.ask_sessions("statement", "waits");
    let waits = statement();
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(statement(), waits, "it has not begun anew");
    assert!(lease.renew().is_ok() && lease.is_held());
    drop(lease);
    wait.result().unwrap();
}
