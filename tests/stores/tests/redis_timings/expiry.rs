//! Foreign holders that die without a word.

use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{builder, key};

/// The promise, counted from the TTL.
const BOUND: Duration = Duration::from_millis(50);

fn delay_past_ttl(
    server: &RedisServer,
    guard: &RedisSandboxExecutionGuard,
    ttl: Duration,
) -> Duration {
    let slot = guard.slot(&key("a"));
    let millis = ttl.as_millis().to_string();
    assert_eq!(
        server.cli(&["SET", slot.as_str(), "foreign", "PX", &millis]),
        "OK"
    );
    // It was set a little earlier, so that the delay is a little less than it was.
    let set = Instant::now();
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    let entered = Instant::now();
    assert!(lease.is_held());
    entered.saturating_duration_since(set + ttl)
}

fn waits_end_soon_after_the_ttl(wakeups: Wakeups) {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server).wakeups(wakeups).build().unwrap();
    forgiving_one_miss(|| {
        let ttls = (0..15).map(|round| Duration::from_millis(100 + 10 * round));
        let delays: Times = ttls
            .map(|ttl| delay_past_ttl(&server, &guard, ttl))
            .collect();
        println!("past the TTL: {delays}");
        if delays.median() <= BOUND {
            Ok(())
        } else {
            Err(delays.to_string())
        }
    });
}

#[test]
fn the_next_one_is_in_within_50_ms_after_a_dead_holders_ttl() {
    waits_end_soon_after_the_ttl(Wakeups::Tracking);
}

#[test]
fn so_it_is_without_wake_ups() {
    waits_end_soon_after_the_ttl(Wakeups::Polling);
}

#[test]
fn a_ttl_beyond_the_safety_nets_interval_is_met_as_well() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server).build().unwrap();
    forgiving_one_miss(|| {
        let delay = delay_past_ttl(&server, &guard, Duration::from_millis(2_700));
        if delay <= BOUND {
            Ok(())
        } else {
            Err(format!("{delay:?}"))
        }
    });
}
