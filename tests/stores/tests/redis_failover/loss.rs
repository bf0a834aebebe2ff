//! What a failover can lose: writes that the old master had acknowledged and not passed on.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_redis::{CloseOutcome, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_topologies::Sentinels;

use crate::{LOST_RELEASE, OPERATION_TIMEOUT, SLACK, alone, builder, key};

/// Renewed after a third, when somebody else has the slot.
const TTL: Duration = Duration::from_secs(30);

/// From now on the master passes nothing on. Answers which it is.
fn cut_off(servers: &Sentinels) -> usize {
    let (index, master) = (servers.master(), servers.master_server());
    assert_eq!(
        master.cli(&["ACL", "SETUSER", "default", "-psync", "-sync"]),
        "OK"
    );
    master.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
    index
}

#[test]
fn a_lease_that_no_replica_has_is_lost_with_the_master_and_its_holder_is_told() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let guard = || {
        let builder = builder(&servers.address()).lease_ttl(TTL).fencing(true);
        let builder = builder.auto_renew(true);
        // Wake-ups would tell at once.
        builder.wakeups(Wakeups::Polling).build().unwrap()
    };
    let (ours, theirs) = (guard(), guard());
    let before = ours.try_enter(&key("a")).unwrap();
    before.close();
    let old = cut_off(&servers);
    let lease = ours.try_enter(&key("a")).unwrap();
    let (tell, told) = mpsc::channel();
    let tell = move || {
        let _ = tell.send(Instant::now());
    };
    lease.on_lost(tell).unwrap();

    servers.server(old).kill();
    let second = theirs.try_enter(&key("a")).unwrap();
    let taken = Instant::now();
    assert!(lease.is_held(), "both believe: that is the loss");
    assert!(second.is_held());
    assert!(second.fencing_token() > lease.fencing_token());
    let lost = told.recv_timeout(PATIENCE).unwrap();
    let took = lost.saturating_duration_since(taken);
    println!("told {took:?} after somebody else entered");
    assert!(took < TTL / 3 + OPERATION_TIMEOUT + SLACK, "{took:?}");
    assert!(!lease.is_held() && second.is_held());
}

#[test]
fn a_release_that_no_replica_has_leaves_the_slot_held_until_its_ttl() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    // With the failover in it, and some time to look at what it left.
    let ttl = LOST_RELEASE;
    let guard = || builder(&servers.address()).lease_ttl(ttl).build().unwrap();
    let (ours, theirs) = (guard(), guard());
    let (before, lease) = (Instant::now(), ours.try_enter(&key("a")).unwrap());
    let granted = Instant::now();
    servers.settle();
    let old = cut_off(&servers);
    assert_eq!(lease.close(), CloseOutcome::Released);
    drop(
        theirs
            .try_enter_now(&key("a"))
            .unwrap()
            .expect("it is free"),
    );

    servers.server(old).kill();
    servers.wait_for_another_than(old);
    let slot = theirs.slot(&key("a"));
    let carried = servers.master_server().cli(&["GET", slot.as_str()]);
    assert_eq!(carried, lease.token().as_str(), "that of the closed lease");
    let next = theirs.try_enter(&key("a")).unwrap();
    let entered = Instant::now();
    println!("entered {:?} after the lost lease", entered - granted);
    assert!(entered - before > ttl, "{:?}", entered - before);
    assert!(entered - granted < ttl + SLACK, "{:?}", entered - granted);
    assert!(next.is_held());
}
