//! Addresses with several hosts.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use guard_core::SandboxExecutionGuard;
use guard_store_tests::postgres_server::{Postgres, PostgresServer};

use crate::database_faults::{SLACK, builder, enter, key};

#[test]
fn a_host_that_is_silent_leaves_the_others_their_share() {
    let server = PostgresServer::start();
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let timeout = Duration::from_secs(2);
    for hosts in [
        format!("127.0.0.1:{port},127.0.0.1:{}", server.port()),
        format!("127.0.0.1:1,127.0.0.1:{port},127.0.0.1:{}", server.port()),
    ] {
        let address = format!("postgres://postgres@{hosts}/postgres");
        let builder = builder::<Postgres>(&address).operation_timeout(timeout);
        let guard = builder.build().unwrap();
        // From here on the silent one is tried last.
        let before = Instant::now();
        let leases: Vec<_> = (0..10)
            .map(|slot| enter(&guard, &key(&slot.to_string())))
            .collect();
        let took = before.elapsed();
        assert!(took < SLACK, "{took:?}");
        assert!(leases.iter().all(|lease| lease.is_held()));
        assert!(guard.try_enter_now(&key("0")).unwrap().is_none());
    }
}

#[test]
fn hosts_and_their_ports_have_to_match() {
    for (address, expected) in [
        ("host=a,b port=1,2,3", "number of ports"),
        ("host=a,b hostaddr=127.0.0.1", "number of `hostaddr`"),
    ] {
        let error = builder::<Postgres>(address).build().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
