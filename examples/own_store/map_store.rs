//! A store over a map: each operation is one step under the lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{
    Acquired, Budget, Capabilities, HandedOver, Holder, LeaseStore, LeaseToken, LeaseTtl, Released,
    Renewed, SlotName, StoreError,
};
use parking_lot::Mutex;

/// The longest TTL, which an `Instant` can be ahead on every system.
const MAX_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Who holds a slot, and until when.
#[derive(Clone)]
struct Lease(LeaseToken, Instant);

impl Lease {
    fn remaining(&self) -> Duration {
        self.1.saturating_duration_since(Instant::now())
    }
}

/// Slots of this process. Clones are handles of the same slots.
#[derive(Clone, Default)]
pub(crate) struct MapStore(Arc<Mutex<HashMap<SlotName, Lease>>>);

impl MapStore {
    /// Who holds the slot.
    fn lease(&self, slot: &SlotName) -> Option<Lease> {
        let lease = self.0.lock().get(slot).cloned();
        lease.filter(|lease| !lease.remaining().is_zero())
    }

    /// In one step: leaves the slot to `next`, if `may` allows whoever holds it to be followed. Answers who held it.
    fn change(
        &self,
        slot: &SlotName,
        may: impl FnOnce(Option<&LeaseToken>) -> bool,
        next: Option<(&LeaseToken, LeaseTtl)>,
    ) -> Result<(), Option<Lease>> {
        let mut leases = self.0.lock();
        let held = leases.get(slot).filter(|held| !held.remaining().is_zero());
        if !may(held.map(|held| &held.0)) {
            return Err(held.cloned());
        }
        match next {
            Some((token, ttl)) => {
                let lease = Lease(token.clone(), Instant::now() + ttl.get());
                leases.insert(slot.clone(), lease);
            }
            None => drop(leases.remove(slot)),
        }
        Ok(())
    }
}

impl LeaseStore for MapStore {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        _: Budget,
    ) -> Result<Acquired, StoreError> {
        let may = |held: Option<&LeaseToken>| held.is_none_or(|held| held == token);
        Ok(match self.change(slot, may, Some((token, ttl))) {
            Ok(()) => Acquired::Granted { fencing: None },
            Err(held) => Acquired::Held {
                remaining: held.map(|held| held.remaining()),
            },
        })
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        _: Budget,
    ) -> Result<Renewed, StoreError> {
        let may = |held: Option<&LeaseToken>| held == Some(token);
        let renewed = self.change(slot, may, Some((token, ttl)));
        Ok(renewed.map_or(Renewed::NotHeld, |()| Renewed::Renewed))
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        _: Budget,
    ) -> Result<Released, StoreError> {
        let released = self.change(slot, |held| held == Some(token), None);
        Ok(released.map_or(Released::NotHeld, |()| Released::Released))
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        _: Budget,
    ) -> Result<HandedOver, StoreError> {
        let may = |held: Option<&LeaseToken>| held == Some(from) || held == Some(to);
        let granted = HandedOver::Granted { fencing: None };
        let handed = self.change(slot, may, Some((to, ttl)));
        Ok(handed.map_or(HandedOver::NotHeld, |()| granted))
    }

    fn holder(&self, slot: &SlotName, _: Budget) -> Result<Option<Holder>, StoreError> {
        let lease = self.lease(slot);
        Ok(lease.map(|lease| Holder::new(lease.0.clone(), Some(lease.remaining()))))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(MAX_TTL);
        capabilities.shared = false;
        capabilities.foreign_holders = false;
        capabilities.foreign_tokens = false;
        capabilities
    }
}
