//! What the store keeps: slots in memory, who wants to hear of their changes, and faults for tests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use guard_core::{
    Clock, FencingToken, Holder, LeaseToken, LeaseTtl, Shards, SlotMap, SlotName, StoreError,
    Subscriber,
};
use parking_lot::Mutex;

/// All slots of a store, spread over several locks.
pub(crate) struct Slots {
    pub(crate) clock: Arc<dyn Clock>,
    /// Spread over several locks, so that distinct slots seldom share one.
    pub(crate) shards: Shards<Mutex<Shard>>,
    pub(crate) watches: AtomicU64,
    /// Whether `faults` holds anything: spares operations its lock. Changed under that lock.
    pub(crate) faulty: AtomicBool,
    /// Protects the faults that the next operations meet.
    pub(crate) faults: Mutex<VecDeque<Fault>>,
}

/// Protected by the shard's lock: who holds its slots, and who wants to hear of changes. Subscribers are called
/// with the lock free.
#[derive(Default)]
pub(crate) struct Shard {
    /// The last fencing token: one counter for all slots of the shard, so that a free slot leaves nothing behind.
    fencing: u64,
    pub(crate) records: SlotMap<Record>,
    pub(crate) watchers: SlotMap<Vec<(u64, Subscriber)>>,
}

/// What a slot carries.
pub(crate) enum Record {
    Lease(Lease),
    /// Something that no guard wrote. It does not expire.
    Foreign,
}

pub(crate) struct Lease {
    pub(crate) token: LeaseToken,
    pub(crate) fencing: FencingToken,
    /// When the operation that gave it its TTL was sent.
    pub(crate) sent: Instant,
    pub(crate) expires: Option<Instant>,
}

/// What the next operation on a store meets; see [`MemoryStore::fail_next`](crate::MemoryStore::fail_next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails for a reason that passes, and has not happened.
    Transient,
    /// It fails for good, and has not happened.
    Permanent,
    /// It gets no answer, and has taken effect all the same.
    UnknownDone,
    /// It gets no answer, and has not taken effect.
    UnknownNotDone,
}

impl Record {
    pub(crate) fn is_live(&self, now: Instant) -> bool {
        match self {
            Self::Lease(lease) => lease.is_live(now),
            Self::Foreign => true,
        }
    }
}

impl Lease {
    pub(crate) fn new(
        token: LeaseToken,
        fencing: FencingToken,
        sent: Instant,
        ttl: Option<Duration>,
    ) -> Self {
        Self {
            token,
            fencing,
            sent,
            expires: ttl.and_then(|ttl| sent.checked_add(ttl)),
        }
    }

    pub(crate) fn is_live(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.expires
            .map(|expires| expires.saturating_duration_since(now))
    }

    /// Gives the lease a fresh TTL by an operation that was sent at `sent`. One that was sent before another and
    /// is done after it changes nothing: the holder counts on the later one.
    pub(crate) fn refresh(&mut self, sent: Instant, ttl: LeaseTtl) {
        if self.sent <= sent {
            self.sent = sent;
            self.expires = sent.checked_add(ttl.get());
        }
    }

    pub(crate) fn holder(&self, now: Instant) -> Holder {
        Holder::new(self.token.clone(), self.remaining(now))
    }
}

impl Shard {
    pub(crate) const fn next_fencing(&mut self) -> FencingToken {
        self.fencing += 1;
        FencingToken::new(self.fencing)
    }

    /// The live lease of a slot.
    pub(crate) fn lease(
        &mut self,
        slot: &SlotName,
        now: Instant,
    ) -> Result<Option<&mut Lease>, StoreError> {
        match self.records.get_mut(slot) {
            Some(Record::Foreign) => Err(foreign_data()),
            Some(Record::Lease(lease)) if lease.is_live(now) => Ok(Some(lease)),
            _ => Ok(None),
        }
    }
}

pub(crate) fn foreign_data() -> StoreError {
    StoreError::permanent("the slot carries foreign data that is not a token")
}

impl Slots {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            shards: Shards::default(),
            watches: AtomicU64::new(0),
            faulty: AtomicBool::new(false),
            faults: Mutex::default(),
        }
    }

    pub(crate) fn shard(&self, slot: &SlotName) -> &Mutex<Shard> {
        self.shards.of(slot)
    }

    /// Works on a slot's shard, then wakes the slot's watchers.
    pub(crate) fn change<T>(&self, slot: &SlotName, work: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = self.shard(slot).lock();
        let result = work(&mut shard);
        let watchers = shard.watchers.get(slot).cloned();
        drop(shard);
        for (_, subscriber) in watchers.into_iter().flatten() {
            subscriber.wake();
        }
        result
    }

    /// Puts a record into a slot, whatever it carries.
    pub(crate) fn plant(&self, slot: &SlotName, record: impl FnOnce(&mut Shard) -> Record) {
        self.change(slot, |shard| {
            let record = record(shard);
            shard.records.insert(slot.clone(), record);
        });
    }

    pub(crate) fn wake_all(&self) {
        for shard in self.shards.iter() {
            let subscribers: Vec<_> = shard.lock().watchers.values().flatten().cloned().collect();
            for (_, subscriber) in subscribers {
                subscriber.wake();
            }
        }
    }

    /// Does an operation, or lets it meet the next fault.
    pub(crate) fn operate<T>(
        &self,
        operation: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.faulty.load(Ordering::Acquire) {
            return operation();
        }
        let fault = {
            let mut faults = self.faults.lock();
            let fault = faults.pop_front();
            self.faulty.store(!faults.is_empty(), Ordering::Release);
            fault
        };
        let injected = "a fault injected by the test";
        match fault {
            None => operation(),
            Some(Fault::Transient) => Err(StoreError::transient(injected)),
            Some(Fault::Permanent) => Err(StoreError::permanent(injected)),
            Some(Fault::UnknownDone) => {
                operation()?;
                Err(StoreError::transient(injected).with_unknown_outcome())
            }
            Some(Fault::UnknownNotDone) => {
                Err(StoreError::transient(injected).with_unknown_outcome())
            }
        }
    }
}
