//! A master that was replaced, lives on, and has not been told. Sentinels that elect two leaders one after the other
//! leave one behind for about ten seconds.

use std::time::Instant;

use guard_conformance::eventually;
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_topologies::{MASTER, Sentinels};

use crate::{OPERATION_TIMEOUT, SLACK, alone, builder, key};

fn guard(servers: &Sentinels, min_replicas: u32) -> RedisSandboxExecutionGuard {
    let builder = builder(&servers.address()).min_replicas(min_replicas);
    builder.wakeups(Wakeups::Polling).build().unwrap()
}

/// The same, with a connection to today's master.
fn connected(servers: &Sentinels, min_replicas: u32) -> RedisSandboxExecutionGuard {
    let guard = guard(servers, min_replicas);
    guard.try_enter(&key("warm")).unwrap().close();
    guard
}

/// Makes another server the master, which all others know, but for the old one. Answers which the old one is.
fn depose(servers: &Sentinels) -> usize {
    let old = servers.master();
    let [new, third] = [1, 2].map(|next| (old + next) % servers.servers().len());
    servers.promote(new);
    servers.follow(third, new);
    old
}

#[test]
fn a_deposed_master_lets_in_whoever_is_connected_until_it_is_told() {
    let _alone = alone();
    let servers = Sentinels::start();
    let ours = connected(&servers, 0);
    // As if the sentinels could not be heard: they do not say that they were given another master by hand.
    let old = depose(&servers);
    let lease = ours.try_enter(&key("a")).unwrap();
    let theirs = guard(&servers, 0).try_enter(&key("a")).unwrap();
    assert!(lease.is_held() && theirs.is_held(), "that is the loss");
    servers.demote(old);
    let error = lease.renew().unwrap_err();
    assert!(!lease.is_held() && theirs.is_held(), "{error:?}");
}

#[test]
fn a_deposed_master_that_nobody_copies_from_is_left_at_once() {
    let _alone = alone();
    // The guard asks for replicas, or the servers do.
    for min_replicas in [1, 0] {
        let servers = Sentinels::start();
        for server in servers.servers() {
            let to_write = (1 - min_replicas).to_string();
            server.cli(&["CONFIG", "SET", "min-replicas-to-write", &to_write]);
        }
        let ours = connected(&servers, min_replicas);
        let old = depose(&servers);
        let start = Instant::now();
        let lease = ours.try_enter(&key("a")).unwrap();
        println!("entered after {:?}", start.elapsed());
        assert!(start.elapsed() < OPERATION_TIMEOUT + SLACK);
        let theirs = guard(&servers, min_replicas);
        assert!(theirs.try_enter_now(&key("a")).unwrap().is_none());
        assert_eq!(lease.close(), CloseOutcome::Released);
        servers.assert_not_told(old);
    }
}

/// Waits until a guard enters where the sentinels say.
fn follows(ours: &RedisSandboxExecutionGuard, servers: &Sentinels) {
    eventually("entries go to the new master", || {
        let _lease = ours.try_enter(&key("a")).unwrap();
        let theirs = guard(servers, 0).try_enter_now(&key("a")).unwrap();
        theirs.is_none()
    });
}

#[test]
fn a_deposed_master_is_left_when_a_sentinel_tells() {
    let _alone = alone();
    let servers = Sentinels::start();
    let ours = connected(&servers, 0);
    let old = servers.fail_over();
    follows(&ours, &servers);
    servers.assert_not_told(old);
}

#[test]
fn another_sentinel_tells_when_the_first_one_is_gone_or_hangs() {
    let _alone = alone();
    for gone in [true, false] {
        let mut servers = Sentinels::start();
        let mut urls = servers.urls();
        urls.reverse();
        let address = format!("sentinel {MASTER} {}", urls.join(" "));
        let ours = builder(&address).wakeups(Wakeups::Polling).build().unwrap();
        ours.try_enter(&key("warm")).unwrap().close();
        let first = servers.sentinel(urls.len() - 1);
        if gone {
            first.kill();
        } else {
            first.stop_process();
        }
        // What a sentinel says while nobody listens is asked for later.
        let old = servers.fail_over();
        follows(&ours, &servers);
        servers.assert_not_told(old);
    }
}
