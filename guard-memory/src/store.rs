//! The store contract on slots in memory, and the controls for tests.

use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, Clock, HandedOver, Holder, LeaseStore, LeaseToken, LeaseTtl,
    Registration, Released, Renewed, SlotName, StoreError, Subscriber, SystemClock, Watch,
};

use crate::clock::ManualClock;
use crate::slots::{Fault, Lease, Record, Slots, foreign_data};

/// The longest TTL: far beyond every use, and safely within what the clock can show.
const MAX_TTL: Duration = Duration::from_secs(1 << 40);

/// Slots in memory. Clones are handles of the same slots.
#[derive(Clone)]
pub struct MemoryStore(Arc<Slots>);

impl MemoryStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::make(Arc::new(SystemClock))
    }

    /// Makes an empty store whose leases, and those of the guards built on it, are judged by `clock`.
    #[must_use]
    pub fn with_clock(clock: ManualClock) -> Self {
        let store = Self::make(Arc::new(clock));
        let inner = Arc::downgrade(&store.0);
        store
            .0
            .clock
            .on_jump(Arc::new(move || match inner.upgrade() {
                Some(inner) => {
                    inner.wake_all();
                    true
                }
                None => false,
            }));
        store
    }

    fn make(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Slots::new(clock)))
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    /// Who holds which slot now, ordered by name.
    #[must_use]
    pub fn holders(&self) -> Vec<(SlotName, Holder)> {
        let now = self.0.clock.now();
        let mut holders: Vec<_> = self
            .0
            .shards
            .iter()
            .flat_map(|shard| {
                let shard = shard.lock();
                let live = shard
                    .records
                    .iter()
                    .filter(|(_, record)| record.is_live(now));
                let leases = live.filter_map(|(slot, record)| match record {
                    Record::Lease(lease) => Some((slot.clone(), lease.holder(now))),
                    Record::Foreign => None,
                });
                leases.collect::<Vec<_>>()
            })
            .collect();
        holders.sort_by(|(a, _), (b, _)| a.cmp(b));
        holders
    }

    /// How many slots the store keeps anything for, those whose lease has expired unnoticed included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0
            .shards
            .iter()
            .map(|shard| shard.lock().records.len())
            .sum()
    }

    /// Whether the store keeps nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the lease of `slot` as if its TTL had passed at the store; answers whether there was one. Its
    /// holder does not know.
    pub fn expire(&self, slot: &SlotName) -> bool {
        self.0
            .change(slot, |shard| shard.records.remove(slot))
            .is_some()
    }

    /// Lets a foreign program take `slot`, whoever holds it, with any token, with or without a TTL.
    pub fn plant_token(&self, slot: &SlotName, token: &str, ttl: Option<Duration>) {
        let (token, now) = (LeaseToken::from_store(token), self.0.clock.now());
        self.0.plant(slot, |shard| {
            Record::Lease(Lease::new(token, shard.next_fencing(), now, ttl))
        });
    }

    /// Puts something into `slot` that is no token, as a foreign program might.
    pub fn plant_foreign_data(&self, slot: &SlotName) {
        self.0.plant(slot, |_| Record::Foreign);
    }

    /// Lets the next operation on the store meet `fault`; several calls queue up.
    pub fn fail_next(&self, fault: Fault) {
        let mut faults = self.0.faults.lock();
        faults.push_back(fault);
        self.0.faulty.store(true, Ordering::Release);
    }

    /// How many faults no operation has met yet.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.0.faults.lock().len()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl LeaseStore for MemoryStore {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        let inner = &*self.0;
        inner.operate(|| {
            let now = budget.sent();
            let mut shard = inner.shard(slot).lock();
            let fencing = shard.next_fencing();
            let new = || Lease::new(token.clone(), fencing, now, Some(ttl.get()));
            let lease = match shard.records.entry(slot.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Record::Lease(new()));
                    let fencing = Some(fencing);
                    return Ok(Acquired::Granted { fencing });
                }
                Entry::Occupied(occupied) => match occupied.into_mut() {
                    Record::Foreign => return Err(foreign_data()),
                    Record::Lease(lease) => lease,
                },
            };
            if !lease.is_live(now) {
                *lease = new();
            } else if lease.token == *token {
                lease.refresh(now, ttl);
            } else {
                let remaining = lease.remaining(now);
                return Ok(Acquired::Held { remaining });
            }
            let fencing = Some(lease.fencing);
            Ok(Acquired::Granted { fencing })
        })
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let inner = &*self.0;
        inner.operate(|| {
            let mut shard = inner.shard(slot).lock();
            let now = budget.sent();
            match shard.lease(slot, now) {
                Ok(Some(lease)) if lease.token == *token => {
                    lease.refresh(now, ttl);
                    Ok(Renewed::Renewed)
                }
                _ => Ok(Renewed::NotHeld),
            }
        })
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        let inner = &*self.0;
        inner.operate(|| {
            let now = budget.sent();
            inner.change(slot, |shard| {
                let live = match shard.records.get(slot) {
                    Some(Record::Lease(lease)) if lease.token == *token => lease.is_live(now),
                    // Whatever foreign data the slot carries, it is not this token.
                    _ => return Ok(Released::NotHeld),
                };
                // An expired lease leaves nothing behind either.
                shard.records.remove(slot);
                Ok(if live {
                    Released::Released
                } else {
                    Released::NotHeld
                })
            })
        })
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        let inner = &*self.0;
        inner.operate(|| {
            let mut shard = inner.shard(slot).lock();
            let now = budget.sent();
            let next = shard.next_fencing();
            let Ok(Some(lease)) = shard.lease(slot, now) else {
                return Ok(HandedOver::NotHeld);
            };
            if lease.token == *from {
                *lease = Lease::new(to.clone(), next, now, Some(ttl.get()));
            } else if lease.token == *to {
                lease.refresh(now, ttl);
            } else {
                return Ok(HandedOver::NotHeld);
            }
            Ok(HandedOver::Granted {
                fencing: Some(lease.fencing),
            })
        })
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        let inner = &*self.0;
        inner.operate(|| {
            let now = budget.sent();
            let mut shard = inner.shard(slot).lock();
            Ok(shard.lease(slot, now)?.map(|lease| lease.holder(now)))
        })
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        let number = self.0.watches.fetch_add(1, Ordering::Relaxed);
        let mut shard = self.0.shard(slot).lock();
        let watchers = shard.watchers.entry(slot.clone()).or_default();
        watchers.push((number, subscriber.clone()));
        Some(Watch::new(Interest {
            store: self.clone(),
            slot: slot.clone(),
            number,
        }))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(MAX_TTL);
        capabilities.fencing = true;
        capabilities.shared = false;
        capabilities.wakeups = true;
        capabilities
    }
}

/// Asks to hear of a slot's changes.
struct Interest {
    store: MemoryStore,
    slot: SlotName,
    number: u64,
}

impl Registration for Interest {}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut shard = self.store.0.shard(&self.slot).lock();
        if let Some(watchers) = shard.watchers.get_mut(&self.slot) {
            watchers.retain(|(number, _)| *number != self.number);
            if watchers.is_empty() {
                shard.watchers.remove(&self.slot);
            }
        }
    }
}
