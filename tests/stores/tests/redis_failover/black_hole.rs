//! A master that hangs: its connections stay open and nothing is answered.

use std::time::{Duration, Instant};

use guard_conformance::{eventually, together};
use guard_redis::{GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_topologies::{Cluster, Sentinels};

use crate::{OPERATION_TIMEOUT, SLACK, alone, builder, key};

const CALLERS: usize = 50;
const SLOTS: usize = 10;
/// Shorter than the sentinels take.
const SHORT: Duration = Duration::from_millis(700);

/// Callers of slots whose master hangs end in time, before there is a new one and after.
fn hammer(guard: &RedisSandboxExecutionGuard) {
    for deadline in [SHORT, 4 * SHORT] {
        together(CALLERS, |number| {
            let start = Instant::now();
            let entry = guard.try_enter_for(&key(&(number % SLOTS).to_string()), deadline);
            let took = start.elapsed();
            assert!(took < deadline + OPERATION_TIMEOUT + SLACK, "{took:?}");
            match entry {
                Ok(lease) => drop(lease),
                Err(GuardError::TimedOut { .. }) => {}
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        });
    }
}

fn assert_all_free(guard: &RedisSandboxExecutionGuard) {
    for slot in 0..SLOTS {
        let entry = guard.try_enter_for(&key(&slot.to_string()), Duration::from_secs(10));
        drop(entry.unwrap());
    }
}

/// Opens connections that are about to hang, and the wake-ups' too.
fn warm_up(guard: &RedisSandboxExecutionGuard) {
    let held = guard.try_enter(&key("0")).unwrap();
    let second = guard.try_enter_for(&key("0"), Duration::from_millis(200));
    assert!(matches!(second, Err(GuardError::TimedOut { .. })));
    held.close();
}

#[test]
fn fifty_callers_of_a_master_of_sentinels_end_by_their_own_deadlines() {
    let _alone = alone();
    let servers = Sentinels::start();
    let guard = builder(&servers.address()).build().unwrap();
    warm_up(&guard);
    let old = servers.master();
    let hanging = servers.master_server();
    hanging.stop_process();
    hammer(&guard);
    servers.wait_for_another_than(old);
    // Nothing that went unanswered keeps a slot, now or when the old master goes on.
    assert_all_free(&guard);
    hanging.cont_process();
    assert_all_free(&guard);
    eventually("no slot is held", || {
        servers.master_server().cli(&["KEYS", "*"]).is_empty()
    });
}

#[test]
fn fifty_callers_of_a_clusters_master_end_by_their_own_deadlines() {
    let _alone = alone();
    let cluster = Cluster::start();
    // One hash slot, so one master.
    let guard = builder(&cluster.address()).key_prefix("{one}");
    let guard = guard.build().unwrap();
    warm_up(&guard);
    let old = cluster.master_of("{one}", 0);
    let witness = (old + 1) % 6;
    let hanging = &cluster.nodes()[old];
    hanging.stop_process();
    hammer(&guard);
    cluster.wait_for_another_than(old, "{one}", witness);
    assert_all_free(&guard);
    hanging.cont_process();
    assert_all_free(&guard);
    eventually("no slot is held", || {
        let new = cluster.master_of("{one}", witness);
        cluster.nodes()[new].cli(&["KEYS", "*"]).is_empty()
    });
}
