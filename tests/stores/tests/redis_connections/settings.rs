//! Settings at their limits.

use std::time::Duration;

use guard_redis::{
    ConfigError, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
};
use guard_store_tests::redis_server::RedisServer;

use crate::key;

type SetTime = fn(RedisGuardBuilder, Duration) -> RedisGuardBuilder;
type SetCount = fn(RedisGuardBuilder, u32) -> RedisGuardBuilder;

const TIMES: [(&str, SetTime); 8] = [
    ("operation_timeout", RedisGuardBuilder::operation_timeout),
    ("ghost_window", RedisGuardBuilder::ghost_window),
    ("lease_ttl", RedisGuardBuilder::lease_ttl),
    ("retry_interval", RedisGuardBuilder::retry_interval),
    ("outage_tolerance", RedisGuardBuilder::outage_tolerance),
    ("max_hold", RedisGuardBuilder::max_hold),
    ("shutdown_grace", RedisGuardBuilder::shutdown_grace),
    ("max_hand_over_time", RedisGuardBuilder::max_hand_over_time),
];

const COUNTS: [(&str, SetCount); 3] = [
    ("pool_size", RedisGuardBuilder::pool_size),
    ("min_replicas", RedisGuardBuilder::min_replicas),
    ("max_hand_overs", RedisGuardBuilder::max_hand_overs),
];

/// The guard works, or the error names the setting.
fn works_or_names(setting: &str, builder: RedisGuardBuilder, replicas: bool) {
    match builder.build() {
        Ok(guard) => {
            // With a TTL of a millisecond it is lost at once; a slot of a guard that asks for replicas is never granted.
            let lease = guard.try_enter_for(&key(setting), Duration::from_millis(50));
            assert!(lease.is_ok() || replicas, "{setting}: {lease:?}");
            drop((lease, guard));
        }
        Err(ConfigError::InvalidSetting { setting: named, .. }) => assert_eq!(named, setting),
        Err(error) => panic!("{setting}: {error:?}"),
    }
}

#[test]
fn every_setting_works_at_its_limits_or_names_itself() {
    let server = RedisServer::start();
    let builder = || RedisSandboxExecutionGuard::builder(server.url());
    for (setting, set) in TIMES {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for renew in [false, true] {
                works_or_names(setting, set(builder().auto_renew(renew), time), false);
            }
        }
    }
    for (setting, set) in COUNTS {
        for count in [0, 1, u32::MAX] {
            let builder = builder().operation_timeout(Duration::from_millis(300));
            works_or_names(setting, set(builder, count), setting == "min_replicas");
        }
    }
}
