//! What only MySQL and MariaDB refuse.

use std::error::Error as _;
use std::process::Command;

use guard_conformance::PATIENCE;
use guard_core::{ConfigError, SandboxExecutionGuard};
use guard_mysql::MySqlSandboxExecutionGuard;
use guard_store_tests::database::{Client, Database as _};
use guard_store_tests::mariadb_server::{MariaDb, MariaDbServer};

use crate::database_faults::{OWNER, builder, enter, guard, key, slot};

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
fn a_wrong_password_is_permanent_and_is_not_shown() {
    let server = MariaDbServer::start();
    server.sql(&MariaDb::create_user("limited", "swordfish", 100));
    let address = MariaDb::address("limited:wrongfish", server.port(), "");
    let error = builder::<MariaDb>(&address).build().unwrap_err();
    let source = error.source().unwrap();
    let text = format!("{error} {error:?} {source} {}", MariaDb::shown(&address));
    assert!(!text.contains("fish"), "{text}");
    assert!(matches!(&error, ConfigError::Connect { .. }) && !error.is_transient());
}

#[test]
fn an_account_without_rights_is_enough_for_its_own_sessions() {
    let server = MariaDbServer::start();
    server.sql(&MariaDb::create_user("limited", "swordfish", 100));
    let address = MariaDb::address("limited:swordfish", server.port(), "");
    let guard = builder::<MariaDb>(&address).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some(OWNER));
    let description = holder.description().unwrap();
    assert!(description.contains(" of limited@"), "{description}");
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(lease.renew().is_err());

    // Another account's session is seen, and is not its to end.
    let mut other = Client::start(&server);
    assert!(other.lock(&slot(&key("b"))));
    assert!(guard.try_enter_now(&key("b")).unwrap().is_none());
    let holder = guard.holder(&key("b")).unwrap().unwrap();
    let description = format!("connection {}", other.id());
    assert_eq!(holder.description(), Some(&*description));
    assert!(guard.force_release(&key("b")).is_err());
}

#[test]
fn a_replica_is_refused_as_transient() {
    let server = MariaDbServer::start();
    drop(enter(&guard(&server), &key("a")));
    server.sql("SET GLOBAL read_only = ON");
    let error = server.builder().build().unwrap_err();
    assert!(error.is_transient());
    assert!(error.source().unwrap().to_string().contains("read-only"));
    server.sql("SET GLOBAL read_only = OFF");
    drop(enter(&guard(&server), &key("a")));
}

/// The numbers of connections begin anew with the server, and on a socket there is no port to tell them apart.
#[test]
fn a_stranger_that_is_given_the_number_of_a_ghost_is_left_alone() {
    let mut server = MariaDbServer::start();
    let guard = builder::<MariaDb>(&server.socket_url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let number: u64 = server.holder(&slot(&key("a"))).unwrap().parse().unwrap();
    let socket = server.sql("SELECT @@socket");
    server.restart();
    let mut strangers = Vec::new();
    loop {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--unbuffered", "--raw"]);
        command.args(["--skip-column-names", "--user=root"]);
        command.arg(format!("--socket={socket}"));
        let stranger = Client::<MariaDb>::of(command);
        let own: u64 = stranger.id().parse().unwrap();
        strangers.push(stranger);
        if own >= number {
            break;
        }
    }
    // Whatever the lease's end does about its session that is gone.
    lease.close();
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
    for stranger in &mut strangers {
        assert_eq!(stranger.ask("SELECT 1"), "1");
    }
}

#[test]
fn an_address_that_asks_for_tls_is_refused() {
    let options = mysql_async::OptsBuilder::default().ssl_opts(mysql_async::SslOpts::default());
    let error = MySqlSandboxExecutionGuard::with_options(options)
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("TLS") && !error.is_transient());
}
