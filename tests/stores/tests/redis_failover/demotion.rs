//! A master that becomes a replica and keeps its connections open.

use guard_conformance::eventually;
use guard_core::CloseOutcome;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::Sentinels;

use crate::{alone, builder, key};

fn exists(server: &RedisServer, guard: &RedisSandboxExecutionGuard, value: &str) -> bool {
    server.cli(&["EXISTS", guard.slot(&key(value)).as_str()]) == "1"
}

#[test]
fn a_demoted_master_is_recognised_and_replaced() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let (old, new) = (servers.master(), (servers.master() + 1) % 3);
    // Each has one connection, which leads to the old master.
    let guards = [(); 4].map(|()| {
        let guard = builder(&servers.address()).pool_size(1);
        guard.wakeups(Wakeups::Polling).build().unwrap()
    });
    let [entering, closing, forgotten, renewing] = &guards;
    let leases = [
        (closing, "closing"),
        (forgotten, "forgotten"),
        (renewing, "renewing"),
    ];
    let leases = leases.map(|(guard, value)| {
        let lease = guard.try_enter(&key(value)).unwrap();
        eventually("the replica has the lease", || {
            exists(servers.server(new), guard, value)
        });
        lease
    });
    servers.promote(new);
    for value in ["forgotten", "renewing"] {
        let slot = forgotten.slot(&key(value));
        assert_eq!(servers.server(old).cli(&["DEL", slot.as_str()]), "1");
    }
    servers.demote(old);

    // What would change something is refused with READONLY …
    let lease = entering.try_enter_now(&key("entering")).unwrap().unwrap();
    assert!(exists(servers.server(new), entering, "entering"));
    assert_eq!(lease.close(), CloseOutcome::Released);
    let [closed, lost, renewed] = leases;
    assert_eq!(closed.close(), CloseOutcome::Released);
    // … and that a token is not there is not taken from a replica.
    assert_eq!(lost.close(), CloseOutcome::Released);
    renewed.renew().unwrap();
    assert!(renewed.is_held());
    assert_eq!(renewed.close(), CloseOutcome::Released);
    assert_eq!(servers.server(new).cli(&["KEYS", "*"]), "");
}
