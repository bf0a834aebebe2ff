//! Renewing many leases over a long way.

use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_core::{Budget, LeaseStore, LeaseToken, Renewed, SlotName};
use guard_redis::{RedisSandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{key, start, token, ttl};

/// Each way.
const DELAY: Duration = Duration::from_millis(75);
/// A round trip for each script would take longer.
const WITHIN: Duration = Duration::from_secs(8);

fn take(
    server: &RedisServer,
    guard: &RedisSandboxExecutionGuard,
    count: usize,
) -> Vec<(SlotName, LeaseToken)> {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut pipeline = redis::pipe();
    let leases = (0..count).map(|number| (guard.slot(&key(&number.to_string())), token()));
    let leases: Vec<_> = leases.collect();
    for (slot, token) in &leases {
        pipeline
            .cmd("SET")
            .arg(slot.as_str())
            .arg(token.as_str())
            .arg("PX")
            .arg(600_000);
    }
    pipeline.exec(&mut connection).unwrap();
    leases
}

fn renew_over_a_long_way(
    proxy: &Proxy,
    guard: &RedisSandboxExecutionGuard,
    leases: &[(SlotName, LeaseToken)],
) {
    let lost = (leases[7].0.clone(), token());
    let mut leases = leases.to_vec();
    leases[7] = lost;
    for round in 0..2 {
        let before = Instant::now();
        let answers = guard
            .store()
            .renew_many(&leases, ttl(), Budget::new(WITHIN));
        let took = before.elapsed();
        for (index, answer) in answers.iter().enumerate() {
            let expected = if index == 7 {
                Renewed::NotHeld
            } else {
                Renewed::Renewed
            };
            assert_eq!(answer.as_ref().ok(), Some(&expected), "{index}: {answer:?}");
        }
        assert!(took < WITHIN, "{took:?}");
        println!("round {round}: {took:?}");
        // In the first round the scripts are loaded and the connections opened.
        proxy.delay(DELAY);
    }
}

#[test]
fn ten_thousand_leases_of_one_server_are_renewed_in_one_round_trip() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    for fencing in [false, true] {
        proxy.delay(Duration::ZERO);
        let guard = RedisSandboxExecutionGuard::builder(proxy.url())
            .wakeups(Wakeups::Polling)
            .fencing(fencing)
            .build()
            .unwrap();
        let leases = take(&server, &guard, 10_000);
        renew_over_a_long_way(&proxy, &guard, &leases);
    }
}

#[test]
fn a_thousand_leases_of_a_cluster_are_renewed_in_one_round_trip_a_node() {
    let server = start(&["--cluster-enabled", "yes", "--cluster-port", "0"]);
    let proxy = Proxy::to(server.port());
    let port = proxy.port().to_string();
    assert_eq!(
        server.cli(&["CONFIG", "SET", "cluster-announce-port", &port]),
        "OK"
    );
    assert_eq!(
        server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]),
        "OK"
    );
    guard_conformance::eventually("the cluster is up", || {
        server
            .cli(&["CLUSTER", "INFO"])
            .contains("cluster_state:ok")
    });
    let guard = RedisSandboxExecutionGuard::cluster([proxy.url()])
        .wakeups(Wakeups::Polling)
        .build()
        .unwrap();
    let leases = take(&server, &guard, 1_000);
    renew_over_a_long_way(&proxy, &guard, &leases);
}
