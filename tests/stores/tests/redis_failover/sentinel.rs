//! A master that dies, and sentinels that make another one.

use std::time::Instant;

use guard_redis::SandboxExecutionGuard;
use guard_store_tests::redis_topologies::Sentinels;

use crate::crowd::{Crowd, Summary};
use crate::{LOST_RELEASE, OPERATION_TIMEOUT, RESUMED_WITHIN, SLACK, alone, builder, key, rounds};

#[test]
fn twenty_threads_work_on_with_the_new_master() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let guards = [(); 2].map(|()| {
        let builder = builder(&servers.address()).lease_ttl(LOST_RELEASE);
        builder.auto_renew(true).build().unwrap()
    });
    let names = (0..5).map(|number| number.to_string()).collect();
    let crowd = Crowd::start(&guards, names, 20);
    for round in 0..rounds() {
        let old = servers.master();
        let before = crowd.entries();
        let killed = Instant::now();
        servers.server(old).kill();
        servers.wait_for_another_than(old);
        let promoted = Instant::now();
        let resumed = crowd.wait_for_an_entry(promoted);
        let all = crowd.wait_for_entries(promoted);
        println!(
            "round {round}: a new master after {:?}, entries {resumed:?} later, to all slots {all:?} later, {before} entries before",
            promoted - killed
        );
        assert!(resumed < RESUMED_WITHIN + SLACK, "{resumed:?}");
        // A release that no replica had is lost: its slot comes free at the end of the TTL.
        assert!(all < LOST_RELEASE + RESUMED_WITHIN + SLACK, "{all:?}");
        servers.rejoin(old);
        // Also where a master had been replaced before it was told, and its last leases are gone.
        crowd.wait_for_entries(Instant::now());
    }
    // Leases that the old master had not passed on yet may have been given twice; nothing else went wrong.
    let summary = crowd.finish();
    assert_eq!(summary.failures, Summary::GOOD.failures);
}

#[test]
fn a_sentinel_that_is_gone_or_hangs_costs_a_part_of_the_time_only() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let address = servers.address();
    let guard = builder(&address).build().unwrap();
    servers.sentinel(0).stop_process();
    servers.sentinel(1).kill();
    let start = Instant::now();
    let other = builder(&address).build().unwrap();
    let lease = other.try_enter(&key("a")).unwrap();
    assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
    lease.close();
    assert!(start.elapsed() < OPERATION_TIMEOUT + SLACK);
    servers.sentinel(0).cont_process();
}

#[test]
fn an_unknown_master_or_no_sentinel_fails_at_once_and_names_no_password() {
    let _alone = alone();
    let servers = Sentinels::start();
    let address = servers
        .address()
        .replace("sentinel leases", "sentinel nobody");
    let error = builder(&address).build().unwrap_err();
    let text = format!("{error} {:?}", error);
    assert!(text.contains("nobody"), "{text}");

    let start = Instant::now();
    let gone = "sentinel leases redis://:hunter2@127.0.0.1:1 redis://:hunter2@127.0.0.1:2";
    let unreachable = builder(gone).credentials("default", "hunter2");
    let text = format!("{unreachable:?}");
    assert!(!text.contains("hunter2"), "{text}");
    let error = unreachable.build().unwrap_err();
    assert!(error.is_transient());
    let text = format!("{error} {error:?}");
    assert!(
        !text.contains("hunter2") && text.contains("127.0.0.1:2"),
        "{text}"
    );
    assert!(start.elapsed() < OPERATION_TIMEOUT + SLACK);
}
