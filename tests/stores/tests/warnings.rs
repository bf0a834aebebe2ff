//! Warnings of leases: of one that is held for long, and of one that is lost. The tests read the log, so they have
//! a target of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::thread;
use std::time::Duration;

use guard_conformance::eventually;
use guard_conformance::measure::alone;
use guard_memory::{
    CloseOutcome, IsolationScope, ManualClock, MemorySandboxExecutionGuard, MemoryStore,
    SandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::logged::{listen, warnings};
use log::LevelFilter::Warn;

fn warnings_of(slot: &str) -> Vec<String> {
    let of_slot = warnings().into_iter().filter(|line| line.contains(slot));
    of_slot.collect()
}

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// The guard looks once a second at most.
const SEVERAL_LOOKS: Duration = Duration::from_millis(2_500);

#[test]
fn a_lease_held_beyond_four_fifths_of_its_ttl_is_warned_of_once() {
    let _alone = alone();
    listen(Warn);
    let clock = ManualClock::new();
    let ttl = Duration::from_secs(10);
    let store = MemoryStore::with_clock(clock.clone());
    let guard = MemorySandboxExecutionGuard::builder()
        .store(store)
        .lease_ttl(ttl)
        .build()
        .unwrap();
    let (kept, renewed) = (
        guard.try_enter(&key("kept")).unwrap(),
        guard.try_enter(&key("renewed")).unwrap(),
    );
    clock.advance(ttl * 7 / 10);
    renewed.renew().unwrap();
    thread::sleep(SEVERAL_LOOKS);
    assert!(warnings_of("kept").is_empty(), "not yet");
    clock.advance(ttl * 2 / 10);
    eventually("the lease is warned of", || !warnings_of("kept").is_empty());
    thread::sleep(SEVERAL_LOOKS);
    let warnings = warnings_of("kept");
    assert!(
        warnings.len() == 1 && warnings[0].contains("lease_ttl"),
        "{warnings:?}"
    );
    assert!(
        warnings_of("renewed").is_empty(),
        "a renewed lease is young again"
    );
    assert!(kept.is_held() && renewed.is_held());
}

#[test]
fn a_loss_is_warned_of_once_when_it_is_noticed_or_at_the_close() {
    let _alone = alone();
    listen(Warn);
    let guard = MemorySandboxExecutionGuard::builder().build().unwrap();
    for (slot, end, why) in [
        (
            "looked-at",
            End::Renewal,
            "a renewal found another token in its slot, or none",
        ),
        ("forced-out", End::Force, "it was ended by force"),
        ("not-looked-at", End::Unnoticed, "when it was closed"),
    ] {
        let lease = guard.try_enter(&key(slot)).unwrap();
        match end {
            End::Renewal => {
                assert!(guard.expire(&key(slot)));
                assert!(lease.renew().is_err());
            }
            End::Force => drop(guard.force_release(&key(slot)).unwrap()),
            End::Unnoticed => assert!(guard.expire(&key(slot))),
        }
        assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
        let warnings = warnings_of(&format!(":{slot}"));
        assert!(
            warnings.len() == 1 && warnings[0].contains(why),
            "{warnings:?}"
        );
    }
}

/// How a lease ends before it is closed.
enum End {
    Renewal,
    Force,
    Unnoticed,
}
