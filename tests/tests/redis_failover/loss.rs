//! What a failover can lose: writes that the old master had acknowledged and not passed on.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::redis_topologies::Sentinels;
use guard_redis::{SandboxExecutionGuard, Wakeups};

use crate::{OPERATION_TIMEOUT, SLACK, alone, builder, key};

/// Renewed after a third, when somebody else has the slot.
const TTL: Duration = Duration::from_secs(30);

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
    // From now on nothing is passed on.
    let old = servers.master();
    let master = servers.server(old);
    assert_eq!(
        master.cli(&["ACL", "SETUSER", "default", "-psync", "-sync"]),
        "OK"
    );
    master.cli(&["CLIENT", "KILL", "TYPE", "replica"]);
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
