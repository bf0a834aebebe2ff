//! Who wants to hear of which slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use guard_core::{SlotMap, SlotName, Subscriber};
use parking_lot::Mutex;

/// Who waits for the slots of a store.
#[derive(Default)]
pub(crate) struct Subscribers {
    number: AtomicU64,
    /// The size of `by_slot`: spares operations on slots that nobody waits for its lock. Changed under it.
    slots: AtomicUsize,
    /// Protects the waiters. Subscribers are called with it free.
    by_slot: Mutex<SlotMap<Vec<Waiter>>>,
}

/// Who wants to hear of a slot.
#[derive(Clone)]
struct Waiter {
    number: u64,
    subscriber: Subscriber,
}

impl Subscribers {
    /// Registers a waiter until the answer is dropped.
    pub(crate) fn add(self: &Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Place {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut by_slot = self.by_slot.lock();
        by_slot.entry(slot.clone()).or_default().push(Waiter {
            number,
            subscriber: subscriber.clone(),
        });
        self.slots.store(by_slot.len(), Ordering::Release);
        Place {
            subscribers: Arc::clone(self),
            slot: slot.clone(),
            number,
        }
    }

    pub(crate) fn contains(&self, slot: &SlotName) -> bool {
        self.slots.load(Ordering::Acquire) > 0 && self.by_slot.lock().contains_key(slot)
    }

    /// Wakes the waiters of a slot.
    pub(crate) fn wake(&self, slot: &SlotName) {
        let waiters = self.by_slot.lock().get(slot).cloned();
        wake(waiters.unwrap_or_default());
    }

    /// Wakes every waiter.
    pub(crate) fn wake_all(&self) {
        wake(self.by_slot.lock().values().flatten().cloned().collect());
    }
}

fn wake(waiters: Vec<Waiter>) {
    for waiter in waiters {
        waiter.subscriber.wake();
    }
}

/// A waiter's place among the subscribers of a slot; dropping it ends it.
pub(crate) struct Place {
    subscribers: Arc<Subscribers>,
    slot: SlotName,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_slot = self.subscribers.by_slot.lock();
        if let Some(waiters) = by_slot.get_mut(&self.slot) {
            waiters.retain(|waiter| waiter.number != self.number);
            if waiters.is_empty() {
                by_slot.remove(&self.slot);
            }
        }
        self.subscribers
            .slots
            .store(by_slot.len(), Ordering::Release);
    }
}
