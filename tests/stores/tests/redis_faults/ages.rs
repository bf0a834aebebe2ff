//! Connections that were opened before another one failed.

use std::collections::BTreeSet;
use std::time::Duration;

use guard_conformance::proxy::Proxy;
use guard_conformance::together;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::key;

/// As many as there are connections.
const THREADS: usize = 4;
/// So slow that operations of all threads need a connection each.
const SLOW: Duration = Duration::from_millis(100);

/// The numbers by which the server knows its clients, but for the one that asks.
fn clients(server: &RedisServer) -> BTreeSet<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    list.lines()
        .filter(|client| !client.contains("cmd=client|list"))
        .filter_map(|client| client.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn connections_older_than_a_failure_are_dropped_at_their_next_checkout() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = RedisSandboxExecutionGuard::builder(proxy.url())
        .pool_size(u32::try_from(THREADS).unwrap())
        .wakeups(Wakeups::Polling)
        .build()
        .unwrap();
    proxy.delay(SLOW);
    let use_all = || {
        together(THREADS, |thread| {
            let lease = guard.try_enter(&key(&thread.to_string())).unwrap();
            drop(lease);
        });
    };
    // The pool grows on its own thread.
    while clients(&server).len() < THREADS {
        use_all();
    }
    let before = clients(&server);
    let one = before.first().unwrap().strip_prefix("id=").unwrap();
    assert_eq!(server.cli(&["CLIENT", "KILL", "ID", one]), "1");
    // In the first of these the failure is noticed; the second begins after it.
    use_all();
    use_all();
    let after = clients(&server);
    assert!(before.is_disjoint(&after), "{before:?}, {after:?}");
}
