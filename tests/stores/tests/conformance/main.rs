//! The suite on each of our stores. A store, or another way to reach one, joins with a line of the table.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod memory;
mod redis;

use std::process::ExitCode;
use std::sync::Arc;

use guard_conformance::{Backend, Start};
use guard_redis::Wakeups;
use guard_store_tests::database::DatabaseBackend;
use guard_store_tests::mariadb_server::MariaDb;
use guard_store_tests::postgres_server::Postgres;
use guard_store_tests::redis_server::{RedisServer, Setup};
use guard_store_tests::redis_topologies::{Cluster, Sentinels};
use guard_store_tests::{acl, replicas};

use memory::Memory;
use redis::Redis;

const LEASE_HOLDER: &str = env!("CARGO_BIN_EXE_lease_holder");

const STORES: &[(&str, Start)] = &[
    ("memory", || Box::new(Memory::default())),
    ("redis", || {
        Box::new(Redis::start("Redis", |builder| builder))
    }),
    ("redis_fenced", || {
        Box::new(Redis::start("fenced Redis", |builder| {
            builder.fencing(true)
        }))
    }),
    ("redis_polling", || {
        Box::new(Redis::start("polled Redis", |builder| {
            builder.wakeups(Wakeups::Polling)
        }))
    }),
    ("redis_acl", redis_acl),
    ("redis_tls", redis_tls),
    ("redis_unix", redis_unix),
    ("redis_replicated", redis_replicated),
    ("redis_sentinel", || {
        Box::new(Redis::over("Sentinel", Sentinels::start(), |builder| {
            builder
        }))
    }),
    ("redis_sentinel_tls", || {
        Box::new(Redis::by_tls("Sentinel by TLS", |certificates| {
            Sentinels::start_with(Some(certificates))
        }))
    }),
    ("redis_cluster", || {
        Box::new(Redis::over("Cluster", Cluster::start(), |builder| {
            builder.fencing(true)
        }))
    }),
    ("redis_cluster_tls", || {
        Box::new(Redis::by_tls("Cluster by TLS", |certificates| {
            Cluster::start_with(Some(certificates))
        }))
    }),
    ("postgres", || {
        Box::new(DatabaseBackend::<Postgres>::start(
            "PostgreSQL",
            LEASE_HOLDER,
            |builder| builder,
        ))
    }),
    ("postgres_polling", || {
        Box::new(DatabaseBackend::<Postgres>::start(
            "polled PostgreSQL",
            LEASE_HOLDER,
            |builder| builder.wait_connections(0),
        ))
    }),
    ("mariadb", || {
        Box::new(DatabaseBackend::<MariaDb>::start(
            "MariaDB",
            LEASE_HOLDER,
            |builder| builder,
        ))
    }),
    ("mariadb_polling", || {
        Box::new(DatabaseBackend::<MariaDb>::start(
            "polled MariaDB",
            LEASE_HOLDER,
            |builder| builder.wait_connections(0),
        ))
    }),
];

fn main() -> ExitCode {
    guard_conformance::run_each(STORES)
}

/// As a user with no more rights than the README says.
fn redis_acl() -> Box<dyn Backend> {
    /// What the cases' key prefixes begin with, and those of the vectors.
    const PREFIXES: [&str; 8] = [
        "conformance-",
        "agentscope:sandbox:lock:",
        "agentscope:guard:",
        "myapp:guard:",
        "prod:",
        "a}:",
        "{:",
        "{t}:",
    ];
    let server = RedisServer::start();
    let url = acl::user(&server, &PREFIXES.map(acl::rule).concat(), server.url());
    Box::new(Redis::on("restricted Redis", server, url, |builder| {
        builder.fencing(true)
    }))
}

/// With certificates on both sides.
fn redis_tls() -> Box<dyn Backend> {
    Box::new(Redis::by_tls("Redis by TLS", |certificates| {
        RedisServer::start_with(Setup {
            tls: Some(Arc::clone(certificates)),
            ..Setup::default()
        })
    }))
}

/// By a socket whose path has a space in it.
fn redis_unix() -> Box<dyn Backend> {
    let directory = tempfile::Builder::new()
        .prefix("a socket")
        .tempdir()
        .unwrap();
    let socket = directory.path().join("redis.sock").display().to_string();
    let server = RedisServer::start_with(Setup {
        arguments: vec!["--unixsocket".to_owned(), socket.clone()],
        ..Setup::default()
    });
    let url = format!("unix://{}", socket.replace(' ', "%20"));
    let redis = Redis::on("Redis by a socket", server, url, |builder| builder);
    Box::new(redis.with(directory))
}

/// With two replicas, which acknowledge every lease.
fn redis_replicated() -> Box<dyn Backend> {
    let (master, replicas) = replicas::start(2);
    let url = master.url();
    let redis = Redis::on("replicated Redis", master, url, |builder| {
        builder.min_replicas(2)
    });
    Box::new(redis.with(replicas))
}
