//! What the builder and the server refuse, and that no password shows.

use std::error::Error as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use guard_conformance::mariadb_server::{MariaDbServer, url};
use guard_conformance::{Waiting, eventually};
use guard_mysql::{ConfigError, GuardError, MySqlSandboxExecutionGuard, SandboxExecutionGuard};

use crate::mariadb_backend::Session;
use crate::{OWNER, SLACK, blocked, builder, enter, key};

const PASSWORD: &str = "swordfish";

#[test]
fn an_address_that_cannot_be_read_is_a_setting() {
    for address in [
        "",
        "nonsense",
        "mysql://[",
        "postgres://root@h/d",
        "mysql://root@h?unknown=1",
        &format!("what://u:{PASSWORD}@h"),
    ] {
        let builder = MySqlSandboxExecutionGuard::builder(address);
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
        ("", "the form is mysql://"),
        ("mysql://", "the form is mysql://"),
        ("postgres://root@h/d", "does not begin with mysql://"),
        ("mysql://root@h?fish=1", "a parameter that is not known"),
        ("mysql://root@h?tcp_nodelay=fish", "not legal"),
    ] {
        let error = MySqlSandboxExecutionGuard::builder(address).build();
        let text = error.unwrap_err().to_string();
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
    let server = MariaDbServer::start();
    // The password is not stored as text; accounts of other hosts are not met.
    server.sql(&format!(
        "CREATE USER limited@127.0.0.1 IDENTIFIED BY '{PASSWORD}'"
    ));
    let address = |user: &str, database: &str| {
        let port = server.port();
        format!("mysql://{user}:{PASSWORD}@127.0.0.1:{port}{database}")
    };
    for address in [
        address("nobody", ""),
        address("limited", "/nothing"),
        address("limited", "").replace(PASSWORD, "wrongfish"),
    ] {
        let error = builder(&address).build().unwrap_err();
        let source = error.source().unwrap();
        let text = format!("{error} {error:?} {source} {:?}", builder(&address));
        assert!(!text.contains("fish"), "{text}");
        assert!(matches!(&error, ConfigError::Connect { .. }) && !error.is_transient());
    }
    // An account without any rights is enough.
    let guard = builder(&address("limited", "")).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some(OWNER));
    let description = holder.description().unwrap();
    assert!(description.contains(" of limited@"), "{description}");
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(lease.renew().is_err());

    // Another account's session is seen, and is not its to end.
    let mut other = Session::start(&server);
    assert!(other.lock(&guard.lock_name(&key("b"))));
    assert!(guard.try_enter_now(&key("b")).unwrap().is_none());
    let holder = guard.holder(&key("b")).unwrap().unwrap();
    let description = format!("connection {}", other.number);
    assert_eq!(holder.description(), Some(&*description));
    assert!(guard.force_release(&key("b")).is_err());
}

#[test]
fn too_many_connections_are_transient_and_no_answer_about_the_slot() {
    let server = MariaDbServer::start();
    server.sql("CREATE USER limited@127.0.0.1 WITH MAX_USER_CONNECTIONS 2");
    let address = url(server.port()).replace("root", "limited");
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
fn a_server_that_ends_idle_sessions_and_long_statements_does_not_end_ours() {
    let server = MariaDbServer::start_with(&[
        "wait-timeout=1",
        "interactive-timeout=1",
        "max-statement-time=0.3",
        "lock-wait-timeout=1",
        "autocommit=OFF",
    ]);
    let guard = builder(&server.url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let other = builder(&server.url()).build().unwrap();
    let wait = Waiting::start(move || other.try_enter(&key("a")).map(drop));
    eventually("it waits at the server", || blocked(&server) == 1);
    let waits = server.sql(WAITING);
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(server.sql(WAITING), waits, "it has not begun anew");
    assert!(lease.renew().is_ok() && lease.is_held());
    drop(lease);
    wait.result().unwrap();
}

/// The statements that wait.
const WAITING: &str =
    "SELECT QUERY_ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";

#[test]
fn a_replica_is_refused_as_transient() {
    let server = MariaDbServer::start();
    let guard = builder(&server.url()).build().unwrap();
    drop(enter(&guard, &key("a")));
    server.sql("SET GLOBAL read_only = ON");
    let error = builder(&server.url()).build().unwrap_err();
    assert!(error.is_transient());
    assert!(error.source().unwrap().to_string().contains("read-only"));
    server.sql("SET GLOBAL read_only = OFF");
    drop(enter(&builder(&server.url()).build().unwrap(), &key("a")));
}

#[test]
fn an_address_that_asks_for_tls_is_refused() {
    let options = mysql_async::OptsBuilder::default().ssl_opts(mysql_async::SslOpts::default());
    let error = MySqlSandboxExecutionGuard::with_options(options)
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("TLS") && !error.is_transient());
}
