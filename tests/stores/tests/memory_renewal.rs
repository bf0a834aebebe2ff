//! When leases are renewed, and when waiters look, by the in-memory store and a clock that is set by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, forward_to};
use guard_core::{
    Budget, CloseOutcome, GuardConfig, LeaseGuard, LeaseStore, LeaseToken, LeaseTtl, Registration,
    Renewed, SandboxExecutionGuard, SandboxIsolationKey, SlotName, StoreError, Subscriber, Watch,
};
use guard_memory::{ManualClock, MemorySandboxExecutionGuard, MemoryStore};

const TTL: Duration = Duration::from_secs(30);
/// When the keeper looks after a lease first.
const EARLY: Duration = Duration::from_millis(100);
/// Long enough for something to happen that must not.
const A_WHILE: Duration = Duration::from_millis(100);

/// The in-memory store, with each renewal told by the time of its clock, and with watches that look well and never
/// tell of anything.
struct Recording {
    store: MemoryStore,
    clock: ManualClock,
    renewals: Sender<Duration>,
    watches: Arc<AtomicU32>,
}

impl LeaseStore for Recording {
    forward_to!(store: acquire, release, hand_over, holder, capabilities);

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let answer = self.store.renew(slot, token, ttl, budget);
        let _ = self.renewals.send(self.clock.elapsed());
        answer
    }

    fn watch(&self, _: &SlotName, _: &Subscriber) -> Option<Watch> {
        self.watches.fetch_add(1, Ordering::SeqCst);
        Some(Watch::new(Silent(Arc::clone(&self.watches))))
    }
}

struct Silent(Arc<AtomicU32>);

impl Registration for Silent {}

impl Drop for Silent {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct World {
    clock: ManualClock,
    store: MemoryStore,
    guard: LeaseGuard<Recording>,
    renewals: Receiver<Duration>,
    /// How many watches there are.
    watches: Arc<AtomicU32>,
}

impl World {
    fn new(change: impl FnOnce(&mut GuardConfig)) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with_clock(clock.clone());
        let (tell, renewals) = mpsc::channel();
        let watches = Arc::<AtomicU32>::default();
        let mut config = GuardConfig {
            lease_ttl: TTL,
            clock: Arc::new(clock.clone()),
            ..GuardConfig::default()
        };
        change(&mut config);
        let recording = Recording {
            store: store.clone(),
            clock: clock.clone(),
            renewals: tell,
            watches: Arc::clone(&watches),
        };
        Self {
            guard: LeaseGuard::new(recording, &config).unwrap(),
            clock,
            store,
            renewals,
            watches,
        }
    }

    /// Sets the clock forward and waits for the renewal that this causes.
    #[track_caller]
    fn renewed_after(&self, time: Duration) -> Duration {
        self.clock.advance(time);
        self.renewals.recv_timeout(PATIENCE).expect("a renewal")
    }

    #[track_caller]
    fn not_renewed_after(&self, time: Duration) {
        self.clock.advance(time);
        let renewed = self.renewals.recv_timeout(A_WHILE);
        assert!(renewed.is_err(), "renewed at {renewed:?}");
    }
}

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::global()
}

#[test]
fn a_lease_is_renewed_at_a_third_of_its_ttl() {
    let world = World::new(|config| config.auto_renew = true);
    let lease = world.guard.try_enter(&key()).unwrap();
    // What happened before the keeper watched is looked for, and a renewal is a look.
    let mut last = world.renewed_after(EARLY);
    for _ in 0..5 {
        world.not_renewed_after(TTL / 3 - Duration::from_secs(1));
        let next = world.renewed_after(Duration::from_secs(1));
        assert_eq!(next - last, TTL / 3);
        last = next;
    }
    assert!(lease.is_held());
}

#[test]
fn a_lease_is_not_renewed_after_max_hold_and_then_lasts_for_the_rest_of_its_ttl() {
    let max_hold = 2 * TTL;
    let world = World::new(|config| {
        config.auto_renew = true;
        config.max_hold = Some(max_hold);
    });
    let lease = world.guard.try_enter(&key()).unwrap();
    world.renewed_after(EARLY);
    for _ in 1..6 {
        world.renewed_after(TTL / 3);
    }
    world.not_renewed_after(TTL / 3);
    assert!(world.clock.elapsed() > max_hold && lease.is_held());
    world.not_renewed_after(TTL * 2 / 3);
    assert!(!lease.is_held());
}

#[test]
fn a_closed_lease_is_neither_renewed_nor_watched() {
    let world = World::new(|config| config.auto_renew = true);
    let lease = world.guard.try_enter(&key()).unwrap();
    world.renewed_after(EARLY);
    assert_eq!(world.watches.load(Ordering::SeqCst), 1);
    assert_eq!(lease.close(), CloseOutcome::Released);
    // The lease itself is kept.
    assert_eq!(world.watches.load(Ordering::SeqCst), 0);
    world.not_renewed_after(TTL);
    assert!(!lease.is_held());
}

/// Wake-ups are hints. Under them is a look every two seconds.
#[test]
fn a_waiter_whose_watch_never_tells_looks_by_itself() {
    let world = World::new(|_| {});
    let holding = MemorySandboxExecutionGuard::builder().store(world.store.clone());
    let holding = holding.build().unwrap();
    let lease = holding.try_enter(&key()).unwrap();
    let waiting = Waiting::start(move || world.guard.try_enter(&key()).map(drop));
    let closed = Instant::now();
    lease.close();
    waiting.result().unwrap();
    let waited = closed.elapsed();
    assert!(waited < Duration::from_secs(12), "{waited:?}");
}
