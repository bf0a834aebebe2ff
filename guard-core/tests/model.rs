//! The engine under a model checker: gate, hand-over, interrupt, timeout and close in many interleavings.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p guard-core --test model --target-dir target/shuttle`; with
//! `--release` it is over sooner.
//! Long waits never end by themselves here, so a wake-up that is lost shows as a deadlock; short ones end at
//! any moment. A failure prints the schedule that leads to it.

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, GuardConfig, GuardError, HandedOver, Holder, Interrupt,
    LeaseGuard, LeaseStore, LeaseToken, LeaseTtl, Released, Renewed, SandboxExecutionGuard,
    SandboxIsolationKey, SandboxLease, SlotName, StoreError, Subscriber, Wait, Watch,
};
use guard_memory::MemoryStore;
use shuttle::rand::Rng as _;
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::{Config, Runner, thread};

/// Interleavings tried for each model.
const ITERATIONS: usize = 20_000;
/// The stack of each thread of a model. The checker's own 60 KiB are too few for a build without optimisation.
const STACK: usize = 1 << 20;

/// Longer than any wait that may end by itself.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);
/// A wait that ends at any moment.
const SHORT: Duration = Duration::from_secs(1);

/// The memory store with a switch of threads before and after each of its steps.
#[derive(Clone)]
struct SteppedStore {
    memory: MemoryStore,
    tells: Tells,
}

/// How the store tells that a slot changed.
#[derive(Clone, Copy)]
enum Tells {
    Nobody,
    /// It wakes those who wait.
    Wakes,
}

fn step<T>(operation: impl FnOnce() -> T) -> T {
    thread::yield_now();
    let result = operation();
    thread::yield_now();
    result
}

impl LeaseStore for SteppedStore {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        step(|| self.memory.acquire(slot, token, ttl, budget))
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        step(|| self.memory.renew(slot, token, ttl, budget))
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        step(|| self.memory.release(slot, token, budget))
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        step(|| self.memory.hand_over(slot, from, to, ttl, budget))
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        step(|| self.memory.holder(slot, budget))
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        match self.tells {
            Tells::Nobody => None,
            Tells::Wakes => step(|| self.memory.watch(slot, subscriber)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
}

/// One slot in one store, for one or more guards that play processes.
struct World {
    store: SteppedStore,
    key: SandboxIsolationKey,
    inside: Arc<AtomicU32>,
}

type Guard = Arc<LeaseGuard<SteppedStore>>;

impl World {
    fn new() -> Self {
        Self::that(Tells::Wakes)
    }

    fn that(tells: Tells) -> Self {
        let memory = MemoryStore::new();
        Self {
            store: SteppedStore { memory, tells },
            key: SandboxIsolationKey::global(),
            inside: Arc::new(AtomicU32::new(0)),
        }
    }

    fn guard(&self) -> Guard {
        self.guard_with(16)
    }

    fn guard_with(&self, max_hand_overs: u32) -> Guard {
        let config = GuardConfig {
            lease_ttl: 2 * LONG,
            retry_interval: match self.store.tells {
                Tells::Nobody => SHORT,
                Tells::Wakes => LONG,
            },
            max_hand_overs,
            max_hand_over_time: LONG,
            ..GuardConfig::default()
        };
        Arc::new(LeaseGuard::new(self.store.clone(), &config).unwrap())
    }

    /// Enters in a thread of its own, is alone inside for a while, and closes. The thread answers whether
    /// it got in.
    fn visit(
        &self,
        guard: &Guard,
        limit: Option<Duration>,
        interrupt: Option<&Interrupt>,
    ) -> thread::JoinHandle<Result<(), GuardError>> {
        let (guard, key, inside) = (
            Arc::clone(guard),
            self.key.clone(),
            Arc::clone(&self.inside),
        );
        let interrupt = interrupt.cloned();
        thread::spawn(move || {
            let mut wait = limit.map_or(Wait::forever(), Wait::at_most);
            if let Some(interrupt) = &interrupt {
                wait = wait.interruptible_by(interrupt);
            }
            let lease = guard.enter(&key, wait)?;
            be_alone(&inside, &lease);
            lease.close();
            Ok(())
        })
    }

    /// To be called when all is over: nothing is left of it, in the store and in the guards.
    fn assert_free<'a>(&self, guards: impl IntoIterator<Item = &'a Guard>) {
        assert!(self.store.memory.is_empty(), "the slot is free in the end");
        for guard in guards {
            assert!(format!("{guard:?}").contains("slots: 0"), "{guard:?}");
        }
    }
}

fn be_alone(inside: &AtomicU32, lease: &SandboxLease) {
    assert_eq!(
        inside.fetch_add(1, Ordering::SeqCst),
        0,
        "one holder at a time"
    );
    thread::yield_now();
    assert!(lease.is_held());
    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    Runner::new(RandomScheduler::new(ITERATIONS), config).run(model);
}

#[test]
fn threads_of_one_process_enter_one_after_the_other_and_none_is_forgotten() {
    check(|| {
        let world = World::new();
        let guard = world.guard();
        let visits = [(); 3].map(|()| world.visit(&guard, None, None));
        for visit in visits {
            visit.join().unwrap().unwrap();
        }
        world.assert_free([&guard]);
    });
}

fn processes_take_turns(world: fn() -> World) {
    check(move || {
        let world = world();
        let guards = [world.guard_with(1), world.guard_with(1)];
        let visits: Vec<_> = guards
            .iter()
            .flat_map(|guard| [(); 2].map(|()| world.visit(guard, None, None)))
            .collect();
        for visit in visits {
            visit.join().unwrap().unwrap();
        }
        world.assert_free(&guards);
    });
}

#[test]
fn an_interrupt_is_reported_or_stays_and_the_slot_is_not_lost() {
    check(|| {
        let world = World::new();
        let guard = world.guard();
        let interrupt = Interrupt::new();
        let lease = guard.try_enter(&world.key).unwrap();
        let first = world.visit(&guard, None, Some(&interrupt));
        let second = world.visit(&guard, None, None);
        let interrupter = {
            let interrupt = interrupt.clone();
            thread::spawn(move || interrupt.interrupt())
        };
        lease.close();
        interrupter.join().unwrap();
        let reported = match first.join().unwrap() {
            Ok(()) => false,
            Err(GuardError::Interrupted { .. }) => true,
            Err(error) => panic!("{error}"),
        };
        assert_ne!(
            reported,
            interrupt.is_interrupted(),
            "reported once, or pending"
        );
        second.join().unwrap().unwrap();
        world.assert_free([&guard]);
    });
}

#[test]
fn a_timeout_at_any_moment_leaves_a_lease_or_a_free_slot() {
    check(|| {
        let world = World::new();
        let guard = world.guard();
        let lease = guard.try_enter(&world.key).unwrap();
        let hasty = world.visit(&guard, Some(SHORT), None);
        let patient = world.visit(&guard, None, None);
        lease.close();
        match hasty.join().unwrap() {
            Ok(()) | Err(GuardError::TimedOut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        patient.join().unwrap().unwrap();
        world.assert_free([&guard]);
    });
}

#[test]
fn closing_the_guard_ends_every_wait_and_loses_no_lease() {
    check(|| {
        let world = World::new();
        let guard = world.guard();
        let lease = guard.try_enter(&world.key).unwrap();
        let visits = [(); 2].map(|()| world.visit(&guard, None, None));
        let closer = {
            let guard = Arc::clone(&guard);
            thread::spawn(move || guard.close())
        };
        lease.close();
        for visit in visits {
            match visit.join().unwrap() {
                Ok(()) | Err(GuardError::Closed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        closer.join().unwrap();
        world.assert_free([&guard]);
    });
}

#[test]
fn a_lease_closed_by_several_threads_while_it_is_renewed_is_closed_once_and_stays_closed() {
    check(|| {
        let world = World::new();
        let guard = world.guard();
        let lease = Arc::new(guard.try_enter(&world.key).unwrap());
        let renewer = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || match lease.renew() {
                Ok(()) | Err(GuardError::NotHeld { .. }) => {}
                Err(error) => panic!("{error}"),
            })
        };
        let closers = [(); 2].map(|()| {
            let lease = Arc::clone(&lease);
            thread::spawn(move || lease.close())
        });
        let waiter = world.visit(&guard, None, None);
        let outcomes = closers.map(|closer| closer.join().unwrap());
        let released =
            |outcome: &&guard_core::CloseOutcome| **outcome == guard_core::CloseOutcome::Released;
        assert_eq!(outcomes.iter().filter(released).count(), 1);
        renewer.join().unwrap();
        waiter.join().unwrap().unwrap();
        assert!(!lease.is_held());
        world.assert_free([&guard]);
    });
}

#[test]
fn interrupts_timeouts_and_closings_together_lose_nothing() {
    check(|| {
        let world = World::new();
        let guards = [world.guard_with(2), world.guard_with(2)];
        let interrupt = Interrupt::new();
        let visits = [
            world.visit(&guards[0], None, Some(&interrupt)),
            world.visit(&guards[0], Some(SHORT), None),
            world.visit(&guards[0], None, None),
            world.visit(&guards[1], None, None),
        ];
        interrupt.interrupt();
        let [interrupted, hasty, patient, other] = visits.map(|visit| visit.join().unwrap());
        let _ = (interrupted, hasty);
        patient.unwrap();
        other.unwrap();
        world.assert_free(&guards);
    });
}

#[test]
fn processes_enter_one_after_the_other_and_none_is_forgotten() {
    processes_take_turns(World::new);
}

#[test]
fn so_they_do_where_the_store_tells_nobody() {
    processes_take_turns(|| World::that(Tells::Nobody));
}

/// Lets others go on for a while: the checker by itself seldom keeps a thread from running for long.
fn dawdle() {
    for _ in 0..shuttle::rand::thread_rng().gen_range(0..80) {
        thread::yield_now();
    }
}

/// One who waits is disturbed while the holder of another process closes.
fn disturb_a_wait(limit: Option<Duration>, disturb: fn(&Interrupt, &Guard)) {
    check(move || {
        let world = World::new();
        let guards = [(); 2].map(|()| world.guard());
        let interrupt = Interrupt::new();
        let lease = guards[0].try_enter(&world.key).unwrap();
        let waiter = world.visit(&guards[1], limit, Some(&interrupt));
        let closer = thread::spawn(move || {
            dawdle();
            lease.close();
        });
        dawdle();
        disturb(&interrupt, &guards[1]);
        let outcome = waiter.join().unwrap();
        closer.join().unwrap();
        let reported = matches!(outcome, Err(GuardError::Interrupted { .. }));
        assert!(!(reported && interrupt.is_interrupted()), "reported once");
        world.assert_free(&guards);
    });
}

#[test]
fn a_wait_for_another_process_ends_well_in_an_interrupt() {
    disturb_a_wait(None, |interrupt, _| interrupt.interrupt());
}

#[test]
fn a_wait_for_another_process_ends_well_when_the_guard_closes() {
    disturb_a_wait(None, |_, guard| guard.close());
}

#[test]
fn a_wait_for_another_process_ends_well_in_a_timeout() {
    disturb_a_wait(Some(SHORT), |_, _| {});
}
