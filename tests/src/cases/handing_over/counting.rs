//! A store that counts how its slots pass from lease to lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use guard_core::{
    Budget, GuardConfig, HandedOver, LeaseGuard, LeaseStore, LeaseToken, LeaseTtl, Released,
    SlotName, StoreError,
};

use crate::fixture::{Fixture, Guard, PATIENCE};
use crate::forward_to;

/// How often leases passed their slot on, and how often they freed it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    handed: AtomicU32,
    freed: AtomicU32,
}

impl Counts {
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
    forward_to!(store: acquire, renew, holder, watch, node, in_doubt, capabilities);

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
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
