//! Any value of any setting works, or is refused by an error that names it.

use std::thread;
use std::time::Duration;

use guard_conformance::measure::alone;
use guard_core::{ConfigError, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Database, GuardBuilder};

use crate::{builder, key, scenes};

scenes! {
    every_value_of_a_setting_works_or_is_refused_by_its_name,
}

type Set<D> = fn(GuardBuilder<D>, Duration) -> GuardBuilder<D>;

fn every_value_of_a_setting_works_or_is_refused_by_its_name<D: Database>() {
    let _alone = alone();
    let server = Daemon::<D>::start();
    let durations: [(&str, Set<D>); 7] = [
        ("operation_timeout", GuardBuilder::operation_timeout),
        ("retry_interval", GuardBuilder::retry_interval),
        ("outage_tolerance", GuardBuilder::outage_tolerance),
        ("lease_ttl", GuardBuilder::lease_ttl),
        ("shutdown_grace", GuardBuilder::shutdown_grace),
        ("max_hand_over_time", GuardBuilder::max_hand_over_time),
        ("max_hold", |builder, time| {
            builder.auto_renew(true).max_hold(time)
        }),
    ];
    let values = [
        Duration::MAX,
        Duration::from_secs(u64::MAX / 2),
        Duration::from_secs(1 << 40),
        Duration::from_millis(1),
        Duration::from_nanos(1),
        Duration::ZERO,
    ];
    for (name, set) in durations {
        for value in values {
            let builder = set(builder::<D>(&server.url()), value);
            works_or_is_named(&format!("{name} = {value:?}"), name, builder);
        }
    }
    for value in [0, 1, u32::MAX] {
        let url = server.url();
        let sized = builder::<D>(&url).pool_size(value);
        works_or_is_named(&format!("pool_size = {value}"), "pool_size", sized);
        let waited = builder::<D>(&url).wait_connections(value);
        works_or_is_named(
            &format!("wait_connections = {value}"),
            "wait_connections",
            waited,
        );
        let handed = builder::<D>(&url).max_hand_overs(value);
        works_or_is_named(
            &format!("max_hand_overs = {value}"),
            "max_hand_overs",
            handed,
        );
    }
}

/// A guard that was built does its work; where a time is too short for that, it fails with an error.
fn works_or_is_named<D: Database>(what: &str, name: &str, builder: GuardBuilder<D>) {
    let guard = match builder.build() {
        Ok(guard) => guard,
        Err(ConfigError::InvalidSetting { setting, reason }) => {
            assert_eq!(setting, name, "{what}: {reason}");
            return;
        }
        // No server answers within a millisecond for sure.
        Err(error) => {
            assert!(
                name == "operation_timeout" && error.is_transient(),
                "{what}: {error}"
            );
            return;
        }
    };
    let short = what.ends_with("= 1ms");
    match guard.try_enter_now(&key("a")) {
        Ok(Some(lease)) => {
            let other = guard.clone();
            let waiting = thread::spawn(move || other.try_enter(&key("a")).map(drop));
            thread::yield_now();
            lease.close();
            let outcome = waiting.join().unwrap();
            assert!(short || outcome.is_ok(), "{what}: {outcome:?}");
        }
        other => assert!(short, "{what}: {other:?}"),
    }
}
