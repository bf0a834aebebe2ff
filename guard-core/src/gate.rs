//! First come, first served: the threads of this process that want the same slot.
//!
//! Only the entry in front of a gate talks to the store. A gate exists while somebody is in it; a slot
//! that nobody enters costs no memory.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap, RandomState};
use std::hash::BuildHasher;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::StoreError;
use crate::slot::SlotName;
use crate::store::NodeId;
use crate::waiter::{Verdict, Waiter};

const SHARDS: usize = 32;

/// All gates of a guard.
#[derive(Debug)]
pub(crate) struct Gates {
    hasher: RandomState,
    /// Spread over several locks, so that distinct slots seldom share one.
    shards: [Mutex<Shard>; SHARDS],
}

/// Protected by the shard's lock: the queues of its slots, and whether the guard takes entries. A queue's
/// `front` is the one entry that was told to be in front. Under the lock only the lock of a waiter, which
/// is a leaf, is taken.
#[derive(Debug, Default)]
struct Shard {
    closed: bool,
    queues: HashMap<SlotName, Queue>,
}

#[derive(Debug)]
struct Queue {
    node: NodeId,
    front: Arc<Waiter>,
    behind: VecDeque<Arc<Waiter>>,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Gates {
    fn shard(&self, slot: &SlotName) -> &Mutex<Shard> {
        // The modulus is below SHARDS, which fits usize.
        #[allow(clippy::cast_possible_truncation)]
        let index = (self.hasher.hash_one(slot) % SHARDS as u64) as usize;
        &self.shards[index]
    }

    /// Puts an entry at the end of its slot's queue until the answer is dropped. An entry that finds the
    /// guard closed is decided at once.
    pub(crate) fn join<'a>(
        &'a self,
        slot: &'a SlotName,
        node: NodeId,
        waiter: &'a Arc<Waiter>,
    ) -> Place<'a> {
        let mut shard = self.shard(slot).lock();
        if shard.closed {
            waiter.decide(Verdict::Closed);
        }
        match shard.queues.entry(slot.clone()) {
            Entry::Vacant(gate) => {
                gate.insert(Queue {
                    node,
                    front: Arc::clone(waiter),
                    behind: VecDeque::new(),
                });
                waiter.move_to_front();
            }
            Entry::Occupied(mut gate) => gate.get_mut().behind.push_back(Arc::clone(waiter)),
        }
        Place {
            gates: self,
            slot,
            waiter,
        }
    }

    fn leave(&self, slot: &SlotName, waiter: &Arc<Waiter>) {
        let mut shard = self.shard(slot).lock();
        let Entry::Occupied(mut gate) = shard.queues.entry(slot.clone()) else {
            return;
        };
        let queue = gate.get_mut();
        if !Arc::ptr_eq(&queue.front, waiter) {
            queue.behind.retain(|other| !Arc::ptr_eq(other, waiter));
        } else if let Some(next) = queue.behind.pop_front() {
            next.move_to_front();
            queue.front = next;
        } else {
            gate.remove();
        }
    }

    /// Makes the entry in front of a slot's gate look at once.
    pub(crate) fn nudge(&self, slot: &SlotName) {
        let shard = self.shard(slot).lock();
        if let Some(queue) = shard.queues.get(slot) {
            queue.front.wake();
        }
    }

    /// Takes no more entries, and ends those under way.
    pub(crate) fn close(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.closed = true;
            shard.decide_all(&Verdict::Closed, |_| true);
        }
    }

    /// Ends every entry under way on a node, those in front and those behind.
    pub(crate) fn fail_node(&self, node: NodeId, error: &StoreError) {
        let verdict = Verdict::Failed(error.clone());
        for shard in &self.shards {
            shard
                .lock()
                .decide_all(&verdict, |queue| queue.node == node);
        }
    }
}

impl Shard {
    fn decide_all(&self, verdict: &Verdict, affected: impl Fn(&Queue) -> bool) {
        for queue in self.queues.values().filter(|queue| affected(queue)) {
            queue.front.decide(verdict.clone());
            for waiter in &queue.behind {
                waiter.decide(verdict.clone());
            }
        }
    }
}

/// An entry's place in its gate; dropping it lets the next one to the front.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    gates: &'a Gates,
    slot: &'a SlotName,
    waiter: &'a Arc<Waiter>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gates.leave(self.slot, self.waiter);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::key::SandboxIsolationKey;
    use crate::slot::KeyPrefix;

    fn slot() -> SlotName {
        KeyPrefix::new("test")
            .unwrap()
            .slot(&SandboxIsolationKey::global())
    }

    fn in_front(waiter: &Waiter) -> bool {
        waiter.wait_for_front(Some(Instant::now()))
    }

    #[test]
    fn the_front_passes_on_in_order_and_leavers_disturb_nobody() {
        let (gates, slot) = (Gates::default(), slot());
        let waiters = [(); 4].map(|()| Arc::new(Waiter::default()));
        let [a, b, c, d] = waiters.each_ref().map(|w| gates.join(&slot, NodeId(0), w));
        assert_eq!(
            waiters.each_ref().map(|w| in_front(w)),
            [true, false, false, false]
        );
        drop(b);
        assert!(!in_front(&waiters[2]));
        drop(a);
        assert!(in_front(&waiters[2]) && !in_front(&waiters[3]));
        drop(d);
        drop(c);
        assert!(
            gates
                .shards
                .iter()
                .all(|shard| shard.lock().queues.is_empty())
        );
    }

    #[test]
    fn a_closed_gate_decides_those_inside_and_those_who_come() {
        let (gates, slot) = (Gates::default(), slot());
        let [inside, late] = [(); 2].map(|()| Arc::new(Waiter::default()));
        let _inside = gates.join(&slot, NodeId(0), &inside);
        gates.close();
        let _late = gates.join(&slot, NodeId(0), &late);
        for waiter in [inside.clone(), late.clone()] {
            assert!(matches!(waiter.verdict(), Some(Verdict::Closed)));
        }
    }
}
