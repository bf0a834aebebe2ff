//! A cluster that loses a master, and one that moves hash slots.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::eventually;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::Cluster;

use crate::crowd::{Crowd, Summary};
use crate::{LOST_RELEASE, RESUMED_WITHIN, SLACK, alone, builder, key, rounds};

fn names() -> Vec<String> {
    (0..6).map(|number| number.to_string()).collect()
}

fn guards(cluster: &Cluster, fencing: bool) -> [RedisSandboxExecutionGuard; 2] {
    [(); 2].map(|()| {
        builder(&cluster.address())
            .fencing(fencing)
            .build()
            .unwrap()
    })
}

#[test]
fn twenty_threads_work_on_when_a_replica_takes_over() {
    let _alone = alone();
    let mut cluster = Cluster::start();
    let guards = [(); 2].map(|()| {
        let builder = builder(&cluster.address()).lease_ttl(LOST_RELEASE);
        builder.auto_renew(true).fencing(true).build().unwrap()
    });
    let slot = guards[0].slot(&key("0"));
    let crowd = Crowd::start(&guards, names(), 20);
    for round in 0..rounds() {
        let old = cluster.master_of(slot.as_str(), 5);
        let witness = (old + 1) % 6;
        let killed = Instant::now();
        cluster.node(old).kill();
        cluster.wait_for_another_than(old, slot.as_str(), witness);
        let promoted = Instant::now();
        let resumed = crowd.wait_for_an_entry(promoted);
        let all = crowd.wait_for_entries(promoted);
        println!(
            "round {round}: a new master after {:?}, entries {resumed:?} later, to all slots {all:?} later",
            promoted - killed
        );
        assert!(resumed < RESUMED_WITHIN + SLACK, "{resumed:?}");
        // A release that no replica had is lost: its slot comes free at the end of the TTL.
        assert!(all < LOST_RELEASE + RESUMED_WITHIN + SLACK, "{all:?}");
        cluster.node(old).restart();
        cluster.settle();
    }
    let summary = crowd.finish();
    assert_eq!(summary.failures, Summary::GOOD.failures);
}

/// Moves the hash slot of a key from one master to another, as `redis-cli --cluster reshard` does.
fn move_hash_slot(key: &str, from: &RedisServer, to: &RedisServer, others: &[RedisServer]) {
    let hash_slot = move_keys(key, from, to);
    let target = to.cli(&["CLUSTER", "MYID"]);
    let set = |node: &RedisServer, state: &str, id: &str| {
        node.cli(&["CLUSTER", "SETSLOT", &hash_slot, state, id])
    };
    assert_eq!(set(to, "NODE", &target), "OK");
    assert_eq!(set(from, "NODE", &target), "OK");
    for other in others
        .iter()
        .filter(|it| it.port() != to.port() && it.port() != from.port())
    {
        // Replicas are told by their masters.
        set(other, "NODE", &target);
    }
}

/// The first part of it: the keys are moved, the hash slot is not. Answers the hash slot.
fn move_keys(key: &str, from: &RedisServer, to: &RedisServer) -> String {
    let hash_slot = from.cli(&["CLUSTER", "KEYSLOT", key]);
    let set = |node: &RedisServer, state: &str, other: &RedisServer| {
        let other = other.cli(&["CLUSTER", "MYID"]);
        let answer = node.cli(&["CLUSTER", "SETSLOT", &hash_slot, state, &other]);
        assert_eq!(answer, "OK");
    };
    set(to, "IMPORTING", from);
    set(from, "MIGRATING", to);
    // Keys come and go meanwhile; those that went are NOKEY.
    let port = to.port().to_string();
    while from.cli(&["CLUSTER", "COUNTKEYSINSLOT", &hash_slot]) != "0" {
        for found in keys_in_slot(from, &hash_slot) {
            migrate(from, &port, &found);
        }
    }
    hash_slot
}

/// By the client library: a counter's name holds a NUL, which `redis-cli` cannot pass on.
fn keys_in_slot(node: &RedisServer, hash_slot: &str) -> Vec<String> {
    let mut connection = redis::Client::open(node.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut command = redis::cmd("CLUSTER");
    command.arg("GETKEYSINSLOT").arg(hash_slot).arg(100);
    command.query(&mut connection).unwrap()
}

fn migrate(from: &RedisServer, port: &str, key: &str) {
    let mut connection = redis::Client::open(from.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut command = redis::cmd("MIGRATE");
    command
        .arg("127.0.0.1")
        .arg(port)
        .arg(key)
        .arg(0)
        .arg(5_000);
    let answer: String = command.query(&mut connection).unwrap();
    assert!(answer == "OK" || answer == "NOKEY", "{answer}");
}

#[test]
fn hash_slots_move_under_load() {
    let _alone = alone();
    let cluster = Cluster::start();
    for fencing in [false, true] {
        let guards = guards(&cluster, fencing);
        let crowd = Crowd::start(&guards, names(), 20);
        for turn in 0..4 {
            for name in names() {
                let slot = guards[0].slot(&key(&name));
                let from = cluster.master_of(slot.as_str(), 0);
                let to = (from + 1 + turn % 2) % 3;
                let nodes = cluster.nodes();
                move_hash_slot(slot.as_str(), &nodes[from], &nodes[to], nodes);
                let resumed = crowd.wait_for_entries(Instant::now());
                assert!(resumed < RESUMED_WITHIN + SLACK, "{resumed:?}");
            }
        }
        println!("fencing {fencing}: {} entries", crowd.entries());
        assert_eq!(crowd.finish(), Summary::GOOD);
    }
}

/// How many scripts a server has run.
fn scripts(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "commandstats"]);
    let mut lines = info.lines();
    let calls = lines.find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = calls.and_then(|calls| calls.split(',').next()?.parse().ok());
    calls.unwrap_or_default()
}

/// While the hash slot is on its way no connection is told of the slot's changes: nobody looks again and again to be.
#[test]
fn a_holder_whose_hash_slot_is_on_its_way_is_looked_for_once() {
    const A_WHILE: Duration = Duration::from_secs(1);
    const FEW: u64 = 10;
    let _alone = alone();
    let cluster = Cluster::start();
    let guard = builder(&cluster.address()).build().unwrap();
    let lease = guard.try_enter(&key("0")).unwrap();
    lease.on_lost(|| ()).unwrap();
    let slot = guard.slot(&key("0"));
    let from = cluster.master_of(slot.as_str(), 0);
    let [from, to] = [from, (from + 1) % 3].map(|index| &cluster.nodes()[index]);
    eventually("the holder is told of changes", || {
        from.cli(&["INFO", "stats"])
            .contains("tracking_total_keys:1")
    });
    let before = scripts(to);
    move_keys(slot.as_str(), from, to);
    eventually("the holder is looked for", || scripts(to) > before);
    thread::sleep(A_WHILE);
    let looks = scripts(to) - before;
    assert!(looks < FEW, "{looks} looks");
    assert!(lease.is_held());
}
