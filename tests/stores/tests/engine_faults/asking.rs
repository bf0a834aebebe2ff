//! When the store is asked, and how often.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use guard_conformance::{PATIENCE, eventually, forward_to};
use guard_core::{
    Budget, GuardConfig, GuardError, Interrupt, LeaseGuard, LeaseStore, LeaseToken, LeaseTtl,
    Renewed, SandboxExecutionGuard, SandboxLease, SlotName, StoreError, Wait,
};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};

use crate::{Hooked, key};

fn counting() -> (Arc<LeaseGuard<Hooked>>, Arc<AtomicU32>) {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let store = Hooked::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (store.guard(&GuardConfig::default()), asked)
}

#[test]
fn an_entry_that_finds_an_interrupt_pending_asks_the_store_nothing() {
    let (guard, asked) = counting();
    let interrupt = Interrupt::new();
    for wait in [Wait::forever(), Wait::not_at_all()] {
        interrupt.interrupt();
        let entered = guard.enter(&key("a"), wait.interruptible_by(&interrupt));
        assert!(matches!(entered, Err(GuardError::Interrupted { .. })));
        Interrupt::current().interrupt();
        let entered = guard.enter(&key("a"), wait);
        assert!(matches!(entered, Err(GuardError::Interrupted { .. })));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    guard.try_enter(&key("a")).unwrap().close();
    assert!(asked.load(Ordering::SeqCst) > 0, "otherwise it is asked");
}

#[test]
fn a_closed_guard_asks_the_store_nothing() {
    let (guard, asked) = counting();
    guard.close();
    for wait in [Wait::forever(), Wait::not_at_all()] {
        let entered = guard.enter(&key("a"), wait);
        assert!(matches!(entered, Err(GuardError::Closed { .. })));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// Does not answer for the last of the leases, or for any.
struct Short {
    memory: MemoryStore,
    answers: AtomicBool,
    asked: AtomicU32,
}

impl LeaseStore for Short {
    forward_to!(memory: acquire, renew, release, hand_over, holder, watch, capabilities);

    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answered = if self.answers.load(Ordering::SeqCst) {
            leases.len() - usize::from(leases.len() > 1)
        } else {
            0
        };
        leases[..answered]
            .iter()
            .map(|(slot, token)| self.memory.renew(slot, token, ttl, budget))
            .collect()
    }
}

#[test]
fn a_store_that_answers_for_too_few_leases_is_asked_again_after_a_while() {
    let store = Short {
        memory: MemoryStore::new(),
        answers: AtomicBool::new(false),
        asked: AtomicU32::new(0),
    };
    let config = GuardConfig {
        lease_ttl: Duration::from_secs(6),
        auto_renew: true,
        ..GuardConfig::default()
    };
    let guard = LeaseGuard::new(store, &config).unwrap();
    let leases: Vec<_> = (0..4)
        .map(|number| guard.try_enter(&key(&number.to_string())).unwrap())
        .collect();
    let asked = || guard.store().asked.load(Ordering::SeqCst);
    eventually("renewals begin", || asked() > 0);
    let before = asked();
    thread::sleep(Duration::from_millis(1_500));
    let made = asked() - before;
    assert!(made > 1 && made < 60, "{made} renewals");
    guard.store().answers.store(true, Ordering::SeqCst);
    eventually("all are renewed after all", || {
        let renewed = |lease: &SandboxLease| lease.held_for() > Duration::from_secs(8);
        leases.iter().all(|lease| renewed(lease) && lease.is_held())
    });
}

#[test]
fn a_thread_enters_while_its_local_storage_is_destroyed() {
    type Guard = Arc<dyn SandboxExecutionGuard>;
    struct Enters(RefCell<Option<(Guard, mpsc::Sender<bool>)>>);
    impl Drop for Enters {
        fn drop(&mut self) {
            let (guard, tell) = self.0.take().unwrap();
            // Held by another thread: this one waits, and so takes every way of an entry.
            let waited = guard.try_enter_for(&key("held"), Duration::from_millis(700));
            let entered = guard.try_enter(&key("free"));
            tell.send(waited.is_err() && entered.is_ok()).unwrap();
        }
    }
    thread_local! {
        static LAST: Enters = const { Enters(RefCell::new(None)) };
    }
    let builder = MemorySandboxExecutionGuard::builder();
    let guard: Arc<dyn SandboxExecutionGuard> = Arc::new(
        builder
            .retry_interval(Duration::from_millis(50))
            .build()
            .unwrap(),
    );
    let _held = guard.try_enter(&key("held")).unwrap();
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        LAST.with(|last| drop(last.0.borrow_mut().replace((Arc::clone(&guard), tell))));
        guard.try_enter(&key("free")).unwrap().close();
    });
    assert!(told.recv_timeout(PATIENCE).unwrap());
    thread.join().unwrap();
}
