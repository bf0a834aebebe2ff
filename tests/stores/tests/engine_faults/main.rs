//! What the engine makes of stores, callbacks and clocks that misbehave: on the in-memory store, some of whose steps
//! are changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod asking;
mod dates;
mod endings;
mod forced;
mod nodes;
mod outages;
mod panics;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, GuardConfig, HandedOver, Holder, IsolationScope, LeaseGuard,
    LeaseStore, LeaseToken, LeaseTtl, NodeId, Released, Renewed, SandboxIsolationKey, SlotName,
    StoreError, Subscriber, Watch,
};
use guard_memory::MemoryStore;

/// A step of a store, and whether it is about to be done or was done just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Acquire,
    Acquired,
    Renew,
    Release,
    Released,
    HandOver,
    HandedOver,
    Holder,
    Watch,
}

/// What happens at a step: an error takes the place of its answer.
type Hook = dyn Fn(Step, &SlotName) -> Result<(), StoreError> + Send + Sync;

/// The in-memory store with a hook at each step.
struct Hooked {
    memory: MemoryStore,
    hook: Box<Hook>,
    /// Whether each slot is on a node of its own.
    nodes: bool,
    /// Who asked to hear of changes.
    subscribers: Mutex<Vec<Subscriber>>,
}

impl Hooked {
    fn new(
        hook: impl Fn(Step, &SlotName) -> Result<(), StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            memory: MemoryStore::new(),
            hook: Box::new(hook),
            nodes: false,
            subscribers: Mutex::default(),
        }
    }

    /// Wakes whoever asked to hear of changes, although there was none.
    fn wake(&self) {
        let subscribers = self.subscribers.lock().unwrap().clone();
        subscribers.iter().for_each(Subscriber::wake);
    }

    fn guard(self, config: &GuardConfig) -> Arc<LeaseGuard<Self>> {
        Arc::new(LeaseGuard::new(self, config).unwrap())
    }
}

impl LeaseStore for Hooked {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        (self.hook)(Step::Acquire, slot)?;
        let answer = self.memory.acquire(slot, token, ttl, budget)?;
        (self.hook)(Step::Acquired, slot)?;
        Ok(answer)
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        (self.hook)(Step::Renew, slot)?;
        self.memory.renew(slot, token, ttl, budget)
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        (self.hook)(Step::Release, slot)?;
        let answer = self.memory.release(slot, token, budget)?;
        (self.hook)(Step::Released, slot)?;
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
        (self.hook)(Step::HandOver, slot)?;
        let answer = self.memory.hand_over(slot, from, to, ttl, budget)?;
        (self.hook)(Step::HandedOver, slot)?;
        Ok(answer)
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        (self.hook)(Step::Holder, slot)?;
        self.memory.holder(slot, budget)
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        (self.hook)(Step::Watch, slot).ok()?;
        self.subscribers.lock().unwrap().push(subscriber.clone());
        self.memory.watch(slot, subscriber)
    }

    fn node(&self, slot: &SlotName) -> NodeId {
        let number = slot.as_str().bytes().last().unwrap_or_default();
        NodeId(if self.nodes { number.into() } else { 0 })
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
}

fn key(name: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, name).unwrap()
}

fn transient() -> StoreError {
    StoreError::transient("on purpose")
}

/// Settings with a TTL.
fn ttl(ttl: Duration) -> GuardConfig {
    GuardConfig {
        lease_ttl: ttl,
        ..GuardConfig::default()
    }
}
