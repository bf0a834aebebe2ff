//! The warning of a lease that is held for long. The test reads the log, so it has a target of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::thread;
use std::time::Duration;

use guard_conformance::eventually;
use guard_conformance::logged::{listen, warnings};
use guard_memory::{
    IsolationScope, ManualClock, MemorySandboxExecutionGuard, MemoryStore, SandboxExecutionGuard,
    SandboxIsolationKey,
};
use log::LevelFilter::Warn;

fn warnings_of(slot: &str) -> usize {
    warnings()
        .iter()
        .filter(|line| line.contains(slot) && line.contains("lease_ttl"))
        .count()
}

/// The guard looks once a second at most.
const SEVERAL_LOOKS: Duration = Duration::from_millis(2_500);

#[test]
fn a_lease_held_beyond_four_fifths_of_its_ttl_is_warned_of_once() {
    listen(Warn);
    let clock = ManualClock::new();
    let ttl = Duration::from_secs(10);
    let store = MemoryStore::with_clock(clock.clone());
    let guard = MemorySandboxExecutionGuard::builder()
        .store(store)
        .lease_ttl(ttl)
        .build()
        .unwrap();
    let key = |value| SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap();
    let (kept, renewed) = (
        guard.try_enter(&key("kept")).unwrap(),
        guard.try_enter(&key("renewed")).unwrap(),
    );
    clock.advance(ttl * 7 / 10);
    renewed.renew().unwrap();
    thread::sleep(SEVERAL_LOOKS);
    assert_eq!(warnings_of("kept"), 0, "not yet");
    clock.advance(ttl * 2 / 10);
    eventually("the lease is warned of", || warnings_of("kept") > 0);
    thread::sleep(SEVERAL_LOOKS);
    assert_eq!(warnings_of("kept"), 1);
    assert_eq!(warnings_of("renewed"), 0, "a renewed lease is young again");
    assert!(kept.is_held() && renewed.is_held());
}
