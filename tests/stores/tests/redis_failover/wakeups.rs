//! Who waits is told by the new master, too.

use std::time::{Duration, Instant};

use guard_conformance::{Waiting, eventually};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::{Cluster, Sentinels};

use crate::{alone, builder, key};

/// Much longer than the test takes: nobody enters by polling.
const RETRY: Duration = Duration::from_secs(25);
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// A waiter for a slot that a stranger has on `master`.
fn waiter(guard: &RedisSandboxExecutionGuard, master: &RedisServer) -> Waiting<Instant> {
    let slot = guard.slot(&key("a"));
    assert_eq!(master.cli(&["SET", slot.as_str(), "foreign"]), "OK");
    let entering = guard.clone();
    let waiter = Waiting::start(move || {
        let lease = entering.try_enter(&key("a")).unwrap();
        let entered = Instant::now();
        lease.close();
        entered
    });
    tracks(master);
    waiter
}

fn tracks(server: &RedisServer) {
    eventually("the server tracks a connection", || {
        server.cli(&["CLIENT", "LIST"]).contains("flags=t")
    });
}

fn is_told(guard: &RedisSandboxExecutionGuard, waiter: Waiting<Instant>, master: &RedisServer) {
    tracks(master);
    let start = Instant::now();
    assert_eq!(master.cli(&["DEL", guard.slot(&key("a")).as_str()]), "1");
    let entered = waiter.result();
    let took = entered.saturating_duration_since(start);
    assert!(took < TOLD_WITHIN, "{took:?}");
}

#[test]
fn a_waiter_hears_of_changes_from_the_master_that_sentinels_made() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let guard = builder(&servers.address()).retry_interval(RETRY);
    let guard = guard.build().unwrap();
    let waiter = waiter(&guard, servers.master_server());
    servers.settle();
    let old = servers.master();
    servers.server(old).kill();
    servers.wait_for_another_than(old);
    is_told(&guard, waiter, servers.master_server());
}

#[test]
fn a_waiter_hears_of_changes_from_the_new_master_while_the_old_one_lives() {
    let _alone = alone();
    let servers = Sentinels::start();
    let guard = builder(&servers.address()).retry_interval(RETRY);
    let guard = guard.build().unwrap();
    let waiter = waiter(&guard, servers.master_server());
    servers.settle();
    let old = servers.fail_over();
    is_told(&guard, waiter, servers.master_server());
    servers.assert_not_told(old);
}

#[test]
fn a_waiter_hears_of_changes_from_the_replica_that_took_over() {
    let _alone = alone();
    let mut cluster = Cluster::start();
    let guard = builder(&cluster.address()).retry_interval(RETRY);
    let guard = guard.build().unwrap();
    let slot = guard.slot(&key("a"));
    let old = cluster.master_of(slot.as_str(), 0);
    let waiter = waiter(&guard, &cluster.nodes()[old]);
    cluster.settle();
    cluster.node(old).kill();
    let witness = (old + 1) % 6;
    cluster.wait_for_another_than(old, slot.as_str(), witness);
    let new = cluster.master_of(slot.as_str(), witness);
    is_told(&guard, waiter, &cluster.nodes()[new]);
}
