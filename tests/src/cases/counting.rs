//! A store that counts what it is asked, and how its slots pass from lease to lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use guard_core::{
    Acquired, Budget, GuardConfig, HandedOver, Holder, LeaseGuard, LeaseStore, LeaseToken,
    LeaseTtl, Released, SlotName, StoreError, Subscriber, Watch,
};

use crate::fixture::{Fixture, Guard, PATIENCE};
use crate::forward_to;

/// How often the store was asked anything, and how often leases passed their slot on and freed it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    asked: AtomicU32,
    handed: AtomicU32,
    freed: AtomicU32,
}

impl Counts {
    /// Entries, releases, hand-overs, looks and watches.
    pub(super) fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Handed over, freed.
    pub(super) fn now(&self) -> [u32; 2] {
        [&self.handed, &self.freed].map(|count| count.load(Ordering::SeqCst))
    }
}

/// The store under test, with its answers counted.
struct Counting {
    store: Arc<dyn LeaseStore>,
    counts: Arc<Counts>,
}

impl LeaseStore for Counting {
    forward_to!(store: renew, node, in_doubt, capabilities);

    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        self.counts.ask();
        self.store.acquire(slot, token, ttl, budget)
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        self.counts.ask();
        self.store.holder(slot, budget)
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.counts.ask();
        self.store.watch(slot, subscriber)
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        self.counts.ask();
        let answer = self.store.release(slot, token, budget)?;
        if answer == Released::Released {
            self.counts.freed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(answer)
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        self.counts.ask();
        let answer = self.store.hand_over(slot, from, to, ttl, budget)?;
        if matches!(answer, HandedOver::Granted { .. }) {
            self.counts.handed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(answer)
    }
}

/// A guard whose steps on the store are counted. No look of a waiter takes the slot by chance: they are
/// far apart.
pub(super) fn counting(
    fixture: &Fixture<'_>,
    change: impl FnOnce(&mut GuardConfig),
) -> (Guard, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let mut config = fixture.config();
    config.retry_interval = 4 * PATIENCE;
    change(&mut config);
    let store = Counting {
        store: fixture.backend.store(),
        counts: Arc::clone(&counts),
    };
    (Arc::new(LeaseGuard::new(store, &config).unwrap()), counts)
}
