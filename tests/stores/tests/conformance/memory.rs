//! The suite's view of the in-memory store.

use std::sync::Arc;
use std::time::Duration;

use guard_conformance::{Backend, Foreign};
use guard_core::{
    ConfigError, GuardConfig, Holder, LeaseStore, LeaseToken, SandboxExecutionGuard, SlotName,
};
use guard_memory::{MemorySandboxExecutionGuard, MemoryStore};

/// A store of this process.
#[derive(Default)]
pub(crate) struct Memory(MemoryStore);

impl Backend for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.0.clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = MemorySandboxExecutionGuard::builder().settings(config);
        Ok(Arc::new(builder.store(self.0.clone()).build()?))
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Memory {
    fn holder(&self, slot: &SlotName) -> Option<Holder> {
        let mut holders = self.0.holders().into_iter();
        holders.find_map(|(name, holder)| (name == *slot).then_some(holder))
    }
}

impl Foreign for Memory {
    fn set(&self, slot: &SlotName, token: &str, ttl: Option<Duration>) {
        self.0.plant_token(slot, token, ttl);
    }

    fn delete(&self, slot: &SlotName) {
        self.0.expire(slot);
    }

    fn plant_data(&self, slot: &SlotName) {
        self.0.plant_foreign_data(slot);
    }

    fn carries_data(&self, slot: &SlotName) -> bool {
        // No token, and not free either: that can only be foreign data, which ends with its deletion.
        self.holder(slot).is_none() && self.0.expire(slot)
    }

    fn carries(&self, slot: &SlotName, token: &str) -> bool {
        // Holders are equal only if their tokens are.
        let token = LeaseToken::from_store(token);
        self.holder(slot)
            .is_some_and(|holder| holder == Holder::new(token, holder.remaining()))
    }

    fn ttl(&self, slot: &SlotName) -> Option<Duration> {
        self.holder(slot)?.remaining()
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let holders = self.0.holders().into_iter();
        let names = holders.map(|(slot, _)| slot.as_str().to_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }
}
