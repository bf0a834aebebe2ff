//! The guard that users name, and its builder.

use guard_core::{
    ConfigError, GuardConfig, Holder, LeaseGuard, SandboxIsolationKey, SlotName, forward_guard,
    guard_settings,
};

use crate::store::MemoryStore;

/// A guard whose slots are in memory.
///
/// ```
/// use guard_memory::{MemorySandboxExecutionGuard, SandboxExecutionGuard, SandboxIsolationKey};
///
/// let guard = MemorySandboxExecutionGuard::builder().build()?;
/// let lease = guard.try_enter(&SandboxIsolationKey::global())?;
/// assert_eq!(guard.holders().len(), 1);
/// drop(lease);
/// assert!(guard.holders().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemorySandboxExecutionGuard {
    guard: LeaseGuard<MemoryStore>,
}

forward_guard!(impl for MemorySandboxExecutionGuard, guard);

impl MemorySandboxExecutionGuard {
    /// Starts building a guard; without further settings it has a store of its own.
    pub fn builder() -> MemoryGuardBuilder {
        MemoryGuardBuilder::default()
    }

    /// The store, with its controls for tests.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        self.guard.store()
    }

    /// The name of `key`'s slot in the store.
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        self.guard.slot(key)
    }

    /// Who holds which slot of the store now, ordered by name.
    #[must_use]
    pub fn holders(&self) -> Vec<(SlotName, Holder)> {
        self.store().holders()
    }

    /// Ends the lease of `key` as if its TTL had passed at the store; answers whether there was one. Its
    /// holder does not know.
    pub fn expire(&self, key: &SandboxIsolationKey) -> bool {
        self.store().expire(&self.slot(key))
    }
}

/// Builds a [`MemorySandboxExecutionGuard`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct MemoryGuardBuilder {
    config: GuardConfig,
    store: MemoryStore,
}

impl MemoryGuardBuilder {
    guard_settings!();

    /// Uses `store`, which other guards may share. Its clock becomes the guard's. Default: a new store.
    pub fn store(mut self, store: MemoryStore) -> Self {
        self.store = store;
        self
    }

    /// Makes the guard.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`], which names the setting and the limit, and
    /// [`ConfigError::Thread`] when the guard's keeper thread cannot be started.
    pub fn build(self) -> Result<MemorySandboxExecutionGuard, ConfigError> {
        let mut config = self.config;
        config.clock = self.store.clock();
        Ok(MemorySandboxExecutionGuard {
            guard: LeaseGuard::new(self.store, &config)?,
        })
    }
}
