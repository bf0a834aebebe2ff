//! An operation has one date: from it the store counts the TTL, and the holder its deadline.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::Waiting;
use guard_core::{
    Budget, Clock, GuardConfig, LeaseStore as _, LeaseToken, LeaseTtl, OwnerLabel,
    SandboxExecutionGuard as _, SandboxLease, SystemClock,
};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};

use crate::{Hooked, Step, key, ttl};

/// Something that takes its time to be dropped.
struct Slow(Duration);

impl Drop for Slow {
    fn drop(&mut self) {
        thread::sleep(self.0);
    }
}

/// The store's deadline of the slot, at least.
fn store_keeps_it(store: &MemoryStore, lease: &SandboxLease) {
    let (_, holder) = store.holders().pop().expect("a holder");
    let at_the_store = holder.remaining().expect("a TTL");
    // Read later, so it has become less.
    let here = lease.remaining();
    assert!(
        here < at_the_store,
        "{here:?} here, {at_the_store:?} at the store"
    );
}

#[test]
fn a_lease_that_was_handed_over_ends_for_its_holder_before_it_ends_at_the_store() {
    let store = MemoryStore::new();
    let guard = MemorySandboxExecutionGuard::builder()
        .store(store.clone())
        .lease_ttl(Duration::from_secs(30))
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let slow = Slow(Duration::from_millis(150));
    lease.on_lost(move || drop(slow)).unwrap();
    let next = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key("a")).unwrap())
    };
    lease.close();
    store_keeps_it(&store, &next.result());
}

/// A clock that takes its time.
struct SlowClock;

impl Clock for SlowClock {
    fn now(&self) -> Instant {
        thread::sleep(Duration::from_millis(50));
        SystemClock.now()
    }
}

#[test]
fn a_renewed_lease_ends_for_its_holder_before_it_ends_at_the_store() {
    let slow = |step: Step| matches!(step, Step::Acquire | Step::Renew | Step::HandOver);
    let guard = Hooked::new(move |step, _| {
        if slow(step) {
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    })
    .guard(&GuardConfig {
        clock: Arc::new(SlowClock),
        ..ttl(Duration::from_secs(30))
    });
    let in_line = |lease: &SandboxLease| {
        let begun = Instant::now();
        let (_, holder) = guard.store().memory.holders().pop().expect("a holder");
        let at_the_store = holder.remaining().expect("a TTL");
        // How long it took to ask the slow clock is known.
        let here = lease.remaining() + begun.elapsed();
        assert!(
            here < at_the_store + Duration::from_millis(20),
            "{here:?} here, {at_the_store:?} at the store"
        );
    };
    let lease = guard.try_enter(&key("a")).unwrap();
    in_line(&lease);
    lease.renew().unwrap();
    in_line(&lease);
    let next = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter(&key("a")).unwrap())
    };
    lease.close();
    in_line(&next.result());
}

#[test]
fn an_operation_that_was_sent_before_another_and_is_done_after_it_takes_nothing_away() {
    let store = MemoryStore::new();
    let prefix = guard_core::KeyPrefix::new("dates").unwrap();
    let slot = prefix.slot(&key("a"));
    let [token, from] = [(); 2].map(|()| LeaseToken::generate(&OwnerLabel::default()));
    let ttl = LeaseTtl::new(Duration::from_secs(30), Duration::MAX).unwrap();
    let budget = || Budget::new(Duration::from_secs(10));
    let left = || store.holders()[0].1.remaining().unwrap();

    let earlier = budget();
    thread::sleep(Duration::from_millis(100));
    let late: [&dyn Fn(); 3] = [
        &|| assert!(store.acquire(&slot, &token, ttl, earlier).is_ok()),
        &|| assert!(store.renew(&slot, &token, ttl, earlier).is_ok()),
        &|| assert!(store.hand_over(&slot, &from, &token, ttl, earlier).is_ok()),
    ];
    for late in late {
        store.acquire(&slot, &token, ttl, budget()).unwrap();
        let before = (Instant::now(), left());
        late();
        let (since, left) = (before.0.elapsed(), left());
        assert!(
            left + since + Duration::from_millis(1) >= before.1,
            "{left:?} of {:?}",
            before.1
        );
    }
}

#[test]
fn short_leases_that_end_all_the_time_are_never_valid_together() {
    let guard = MemorySandboxExecutionGuard::builder()
        .lease_ttl(Duration::from_millis(10))
        .build()
        .unwrap();
    // The lease that entered last, which may be held still.
    let last: Mutex<Option<Arc<SandboxLease>>> = Mutex::new(None);
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (guard, last) = (&guard, &last);
            scope.spawn(move || {
                for round in 0..700 {
                    let lease = Arc::new(guard.try_enter(&key("a")).unwrap());
                    let before = last.lock().unwrap().replace(Arc::clone(&lease));
                    if let Some(before) = before {
                        let both = lease.is_held() && before.is_held() && lease.is_held();
                        assert!(!both, "two leases are valid at once");
                    }
                    // Sometimes closed in time, sometimes just when it ends, sometimes not.
                    thread::sleep(Duration::from_micros(
                        (round * 37 + thread * 4_001) % 12_000,
                    ));
                    if round % 3 != 0 {
                        lease.close();
                    }
                }
            });
        }
    });
}
