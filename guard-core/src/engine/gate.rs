//! First come, first served: the threads of this process that want the same slot.
//!
//! Only the entry in front of a gate talks to the store. A gate exists while somebody is in it or a lease of
//! this process holds its slot; a slot that nobody enters costs no memory.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::base::error::StoreError;
use crate::base::slot::{Shards, SlotMap, SlotName};
use crate::base::sync::{AtomicUsize, Mutex};
use crate::base::token::LeaseToken;
use crate::engine::schedule::TendedLease;
use crate::engine::turns::Follow;
use crate::engine::waiter::{Grant, Received, Verdict, Waiter};
use crate::store::contract::NodeId;
use crate::store::watch::Wake as _;

/// All gates of a guard.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// Spread over several locks, so that distinct slots seldom share one.
    shards: Shards<Mutex<Shard>>,
    /// How many entries are queued: spares closing leases a look for them when there are none. Changed under
    /// the lock of the queue's shard.
    queued: AtomicUsize,
}

/// Protected by the shard's lock: the gates of its slots, and whether the guard takes entries. A gate has
/// entries or a holder, and its first entry was told that it is in front. Under the lock only the lock of a waiter, which is a leaf, is taken.
#[derive(Debug, Default)]
struct Shard {
    closed: bool,
    gates: SlotMap<Gate>,
}

#[derive(Debug)]
struct Gate {
    node: NodeId,
    queue: VecDeque<Arc<Waiter>>,
    /// Since when entries followed each other without leaving the slot to other processes.
    kept_since: Option<Instant>,
    /// The lease of this process that holds the slot, as far as is known here.
    holder: Option<Holding>,
}

#[derive(Debug)]
struct Holding {
    token: LeaseToken,
    /// The lease itself; `None` until the entry that was handed the slot has made it.
    lease: Option<Weak<dyn TendedLease>>,
    /// When it was entered or last renewed by hand, by the guard's clock.
    since: Instant,
    warned: bool,
}

impl Holding {
    const fn new(token: LeaseToken, lease: Option<Weak<dyn TendedLease>>, since: Instant) -> Self {
        let warned = false;
        Self {
            token,
            lease,
            since,
            warned,
        }
    }
}

impl Gates {
    fn shard(&self, slot: &SlotName) -> &Mutex<Shard> {
        self.shards.of(slot)
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
        let gate = shard.gates.entry(slot.clone());
        let gate = gate.or_insert_with(|| Gate::new(node));
        if gate.queue.is_empty() {
            waiter.move_to_front(false);
        }
        gate.queue.push_back(Arc::clone(waiter));
        self.queued.fetch_add(1, Ordering::SeqCst);
        Place {
            gates: self,
            slot,
            waiter,
        }
    }

    /// Answers whether the entry's token was ended by force.
    fn leave(&self, slot: &SlotName, waiter: &Arc<Waiter>, entered: Option<Holding>) -> bool {
        let mut shard = self.shard(slot).lock();
        let Some(gate) = shard.gates.get_mut(slot) else {
            return false;
        };
        let front = gate.queue.front();
        let was_first = front.is_some_and(|front| Arc::ptr_eq(front, waiter));
        let before = gate.queue.len();
        gate.queue.retain(|other| !Arc::ptr_eq(other, waiter));
        self.queued
            .fetch_sub(before - gate.queue.len(), Ordering::SeqCst);
        if was_first && let Some(next) = gate.queue.front() {
            next.move_to_front(entered.is_some());
        }
        if entered.is_some() {
            gate.holder = entered;
        }
        if gate.is_idle() {
            shard.gates.remove(slot);
        }
        waiter.is_revoked()
    }

    /// Whether a lease of this process holds the slot, as far as is known here.
    pub(crate) fn is_held(&self, slot: &SlotName) -> bool {
        let shard = self.shard(slot).lock();
        shard
            .gates
            .get(slot)
            .is_some_and(|gate| gate.holder.is_some())
    }

    /// The first entry in line that is undecided, with its token.
    pub(crate) fn receiver(&self, slot: &SlotName) -> Option<(Arc<Waiter>, LeaseToken)> {
        if self.queued.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let shard = self.shard(slot).lock();
        let queue = &shard.gates.get(slot)?.queue;
        queue
            .iter()
            .find_map(|waiter| Some((Arc::clone(waiter), waiter.undecided_token()?)))
    }

    /// Hands a grant to an entry.
    pub(crate) fn hand(&self, slot: &SlotName, receiver: &Waiter, grant: Grant) -> Received {
        let mut shard = self.shard(slot).lock();
        let holding = Holding::new(grant.token.clone(), None, grant.at);
        let received = receiver.receive(grant);
        // Under the same lock, so that the receiver's own closing comes after it.
        if received == Received::Taken
            && let Some(gate) = shard.gates.get_mut(slot)
        {
            gate.holder = Some(holding);
        }
        received
    }

    /// Notes that the lease of `token` has given the slot back, and lets the next entry follow.
    pub(crate) fn freed(&self, slot: &SlotName, token: &LeaseToken, follow: Follow) {
        let mut shard = self.shard(slot).lock();
        let Some(gate) = shard.gates.get_mut(slot) else {
            return;
        };
        if gate
            .holder
            .as_ref()
            .is_some_and(|holding| holding.token == *token)
        {
            gate.holder = None;
        }
        if let Some(front) = gate.queue.front() {
            match follow.by(&mut gate.kept_since) {
                None => front.wake(),
                Some(moment) => front.wake_by(moment),
            }
        }
        if gate.is_idle() {
            shard.gates.remove(slot);
        }
    }

    /// Makes the entry in front of a slot's gate look at once.
    pub(crate) fn nudge(&self, slot: &SlotName) {
        let shard = self.shard(slot).lock();
        if let Some(front) = shard.gates.get(slot).and_then(|gate| gate.queue.front()) {
            front.wake();
        }
    }

    /// Notes that the lease of `token` was renewed at `now`.
    pub(crate) fn renewed(&self, slot: &SlotName, token: &LeaseToken, now: Instant) {
        let mut shard = self.shard(slot).lock();
        let holding = shard
            .gates
            .get_mut(slot)
            .and_then(|gate| gate.holder.as_mut());
        if let Some(holding) = holding.filter(|holding| holding.token == *token) {
            holding.since = now;
            holding.warned = false;
        }
    }

    /// Notes that `token` is about to be ended by force: an entry under way that goes by it makes no lease of
    /// it, or one that is lost. Answers the lease that was made of it already.
    pub(crate) fn revoke(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
    ) -> Option<Arc<dyn TendedLease>> {
        let mut shard = self.shard(slot).lock();
        let gate = shard.gates.get_mut(slot)?;
        for waiter in &gate.queue {
            waiter.revoke(token);
        }
        gate.lease(token)
    }

    /// The lease of this process that holds the slot with `token`, once its entry has made it.
    pub(crate) fn lease(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
    ) -> Option<Arc<dyn TendedLease>> {
        self.shard(slot).lock().gates.get(slot)?.lease(token)
    }

    /// The leases that have been held for `age` at `now`, by the guard's clock; each is told once.
    pub(crate) fn long_held(
        &self,
        now: Instant,
        age: Duration,
    ) -> Vec<(SlotName, LeaseToken, Duration)> {
        let mut found = Vec::new();
        for shard in self.shards.iter() {
            for (slot, gate) in &mut shard.lock().gates {
                let Some(holding) = gate.holder.as_mut().filter(|holding| !holding.warned) else {
                    continue;
                };
                let held_for = now.saturating_duration_since(holding.since);
                if held_for >= age {
                    holding.warned = true;
                    found.push((slot.clone(), holding.token.clone(), held_for));
                }
            }
        }
        found
    }

    /// Takes no more entries, and ends those under way.
    pub(crate) fn close(&self) {
        for shard in self.shards.iter() {
            let mut shard = shard.lock();
            shard.closed = true;
            shard.decide_all(&Verdict::Closed, |_| true);
        }
    }

    /// Ends every entry under way on a node, those in front and those behind.
    pub(crate) fn fail_node(&self, node: NodeId, error: &StoreError) {
        let verdict = Verdict::Failed(error.clone());
        for shard in self.shards.iter() {
            shard.lock().decide_all(&verdict, |gate| gate.node == node);
        }
    }

    /// How many slots this process holds or waits for.
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().gates.len())
            .sum()
    }
}

impl Gate {
    const fn new(node: NodeId) -> Self {
        Self {
            node,
            queue: VecDeque::new(),
            kept_since: None,
            holder: None,
        }
    }

    fn lease(&self, token: &LeaseToken) -> Option<Arc<dyn TendedLease>> {
        let holding = self.holder.as_ref().filter(|h| h.token == *token)?;
        holding.lease.as_ref()?.upgrade()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.holder.is_none()
    }
}

impl Shard {
    fn decide_all(&self, verdict: &Verdict, affected: impl Fn(&Gate) -> bool) {
        for gate in self.gates.values().filter(|gate| affected(gate)) {
            for waiter in &gate.queue {
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

impl Place<'_> {
    /// Leaves the gate with a lease, at `now` by the guard's clock: the next one waits for it to be handed
    /// over. Answers whether the lease was ended by force meanwhile.
    pub(crate) fn enter(
        self,
        token: LeaseToken,
        lease: Option<Weak<dyn TendedLease>>,
        now: Instant,
    ) -> bool {
        let entered = Some(Holding::new(token, lease, now));
        let revoked = self.gates.leave(self.slot, self.waiter, entered);
        std::mem::forget(self);
        revoked
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gates.leave(self.slot, self.waiter, None);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
