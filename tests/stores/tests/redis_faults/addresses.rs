//! Addresses that cannot work.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use guard_redis::{
    ConfigError, IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard,
    SandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::everything_said;
use guard_store_tests::redis_server::{RedisServer, Setup};
use guard_store_tests::redis_topologies::builder;

use crate::SLACK;

/// Building fails at once, in words that `expected` is among.
#[track_caller]
fn refused(url: &str, expected: &str) -> ConfigError {
    refused_by(builder(url), expected)
}

#[track_caller]
fn refused_by(builder: RedisGuardBuilder, expected: &str) -> ConfigError {
    let said = format!("{builder:?}");
    let before = Instant::now();
    let error = builder.build().expect_err(&said);
    assert!(
        before.elapsed() < SLACK,
        "{said} took {:?}",
        before.elapsed()
    );
    let text = everything_said(&error);
    assert!(text.contains(expected), "{expected:?} not in {text}");
    error
}

#[test]
fn what_is_no_redis_url_is_refused_as_a_setting() {
    for url in [
        "",
        "not a url",
        "127.0.0.1:6379",
        "http://127.0.0.1:6379",
        "redis://127.0.0.1:99999",
        "redis://127.0.0.1:port",
        "redis://127.0.0.1/database",
        "redis://",
    ] {
        let error = refused(url, "address");
        assert!(
            matches!(error, ConfigError::InvalidSetting { .. }),
            "{url}: {error:?}"
        );
        assert!(!error.is_transient());
    }
}

#[test]
fn what_is_wrong_with_an_address_is_said_and_no_password_with_it() {
    for (url, expected) in [
        ("", "of the form redis"),
        (
            "redis://u:hunter2@h/notanumber",
            "(invalid database number)",
        ),
        (
            "redis://u:hunter2@h/-1",
            "setting `database`: -1 is negative",
        ),
        ("redis://u:hunter2@0.0.0.0", "wildcard"),
        ("redis//u:hunter2@h", "of the form redis"),
    ] {
        let text = everything_said(&refused(url, expected));
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn the_database_that_was_set_is_shown_and_a_negative_one_refused() {
    for topology in ["", "sentinel m "] {
        let builder = || builder(&format!("{topology}redis://127.0.0.1:1/5"));
        refused_by(builder().database(7), "database 7");
        let error = refused_by(builder().database(-1), "setting `database`: -1 is negative");
        assert!(!error.is_transient(), "{error:?}");
    }
    refused("redis://127.0.0.1:1/5", "database 5");
}

#[test]
fn a_port_where_nobody_listens_is_refused() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = refused(&format!("redis://127.0.0.1:{port}"), &port.to_string());
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
    assert!(error.is_transient(), "the server may come up");
}

#[test]
fn a_socket_that_is_not_there_is_refused() {
    let error = refused("unix:///nowhere/redis.sock", "/nowhere/redis.sock");
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
}

#[test]
fn a_database_out_of_range_is_refused() {
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}/99", server.port());
    let error = refused(&url, "database");
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
    assert!(!error.is_transient());
}

#[test]
fn a_server_that_is_full_may_have_room_later() {
    let server = RedisServer::start_with(Setup {
        arguments: ["--maxclients", "2"].map(str::to_owned).into(),
        ..Setup::default()
    });
    // The second place is left for `redis-cli`; every further guard wants one.
    let first = RedisSandboxExecutionGuard::builder(server.url())
        .build()
        .unwrap();
    let second = RedisSandboxExecutionGuard::builder(server.url())
        .build()
        .unwrap();
    // The server says why and hangs up at once: what arrives first is a matter of luck.
    let error = refused(&server.url(), "");
    assert!(error.is_transient(), "{error:?}");
    drop((first, second));
}

#[test]
fn what_a_cluster_a_sentinel_or_a_pool_cannot_have_is_refused_as_a_setting() {
    let none: [&str; 0] = [];
    let manager = || builder("redis://127.0.0.1").connection_manager().unwrap();
    let pool = r2d2::Pool::builder().min_idle(Some(0));
    let pool = pool.build_unchecked(manager());
    let pooled = || RedisSandboxExecutionGuard::from_pool(pool.clone());
    for (builder, setting) in [
        (RedisSandboxExecutionGuard::cluster(none), "nodes"),
        (RedisSandboxExecutionGuard::sentinel(none, "m"), "sentinels"),
        (builder("cluster redis://127.0.0.1/1"), "database"),
        (builder("cluster redis://127.0.0.1").database(2), "database"),
        (builder("cluster nonsense"), "address"),
        (pooled().credentials("default", "secret"), "credentials"),
        (pooled().database(1), "database"),
        (
            pooled().tls_ca_certificate("anything"),
            "tls_ca_certificate",
        ),
    ] {
        let error = refused_by(builder, setting);
        assert!(
            matches!(error, ConfigError::InvalidSetting { .. }),
            "{setting}: {error:?}"
        );
    }
}

#[test]
fn a_pool_of_the_users_is_for_one_server() {
    for address in [
        "cluster redis://127.0.0.1",
        "sentinel leases redis://127.0.0.1",
        "nonsense",
    ] {
        let error = builder(address).connection_manager().expect_err(address);
        assert!(error.to_string().contains("address"), "{error}");
    }
}

#[test]
fn a_server_of_another_kind_is_refused() {
    let server = RedisServer::start();
    let error = refused_by(builder(&format!("cluster {}", server.url())), "cluster");
    assert!(!error.is_transient(), "{error:?}");
    let sentinel = builder(&format!("sentinel leases {}", server.url()));
    let error = refused_by(sentinel, "sentinel");
    assert!(!error.is_transient(), "{error:?}");
}

#[test]
fn credentials_and_database_of_the_builder_replace_those_of_the_address() {
    let server = RedisServer::start_with(Setup {
        password: Some("hunter2".to_owned()),
        ..Setup::default()
    });
    let url = format!("redis://:wrong@127.0.0.1:{}/1", server.port());
    let guard = builder(&url)
        .credentials("default", "hunter2")
        .database(3)
        .build()
        .unwrap();
    let key = SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap();
    let lease = guard.try_enter(&key).unwrap();
    let slot = guard.slot(&key);
    assert_eq!(server.cli(&["-n", "3", "EXISTS", slot.as_str()]), "1");
    lease.close();
}
