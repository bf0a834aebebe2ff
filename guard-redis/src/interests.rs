//! Who wants to hear of which slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use guard_core::{SlotMap, SlotName, Subscriber};
use parking_lot::Mutex;

/// The waiters of a store, by slot.
#[derive(Default)]
pub(crate) struct Interests {
    number: AtomicU64,
    /// The size of `by_slot`: spares operations on slots that nobody waits for its lock. Changed under it.
    slots: AtomicUsize,
    /// Protects the waiters. Subscribers are called with it free.
    by_slot: Mutex<SlotMap<Vec<Waiter>>>,
}

/// Who wants to hear of a slot.
#[derive(Clone)]
pub(crate) struct Waiter {
    pub(crate) number: u64,
    pub(crate) subscriber: Subscriber,
}

impl Interests {
    /// Registers a waiter until the answer is dropped.
    pub(crate) fn add(self: &Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Interest {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut by_slot = self.by_slot.lock();
        by_slot.entry(slot.clone()).or_default().push(Waiter {
            number,
            subscriber: subscriber.clone(),
        });
        self.slots.store(by_slot.len(), Ordering::Release);
        Interest {
            interests: Arc::clone(self),
            slot: slot.clone(),
            number,
        }
    }

    pub(crate) fn contains(&self, slot: &SlotName) -> bool {
        self.slots.load(Ordering::Acquire) > 0 && self.by_slot.lock().contains_key(slot)
    }

    /// The waiters of a slot.
    pub(crate) fn of(&self, slot: &SlotName) -> Vec<Waiter> {
        self.by_slot.lock().get(slot).cloned().unwrap_or_default()
    }

    /// Wakes the waiters of a slot.
    pub(crate) fn wake(&self, slot: &SlotName) {
        let waiters = self.of(slot);
        waiters
            .into_iter()
            .for_each(|waiter| waiter.subscriber.wake());
    }

    /// Wakes every waiter.
    pub(crate) fn wake_all(&self) {
        let waiters: Vec<_> = self.by_slot.lock().values().flatten().cloned().collect();
        waiters
            .into_iter()
            .for_each(|waiter| waiter.subscriber.wake());
    }
}

/// A waiter's interest in a slot; dropping it ends it.
pub(crate) struct Interest {
    interests: Arc<Interests>,
    slot: SlotName,
    number: u64,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut by_slot = self.interests.by_slot.lock();
        if let Some(waiters) = by_slot.get_mut(&self.slot) {
            waiters.retain(|waiter| waiter.number != self.number);
            if waiters.is_empty() {
                by_slot.remove(&self.slot);
            }
        }
        self.interests.slots.store(by_slot.len(), Ordering::Release);
    }
}
