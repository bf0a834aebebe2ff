//! What a store has to bring along to be tested.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Capabilities, ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName,
};

/// A store under test.
pub trait Backend: Send + Sync + 'static {
    /// The store's name.
    fn name(&self) -> &str;

    /// The bare store, for what a guard would hide.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// Makes a further guard on the same slots, with gates and threads of its own, as another process
    /// would; so one case can play several.
    ///
    /// # Errors
    ///
    /// Whatever the store's builder says to the settings.
    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError>;

    /// A program that is not ours and works on the same slots. `None` for stores that such programs cannot use.
    fn foreign(&self) -> Option<&dyn Foreign> {
        None
    }

    /// Starts another process on the same slots: a program of one line,
    /// [`lease_holder`](crate::lease_holder), that has the store's address as its first argument already. `None` for
    /// stores that processes cannot share.
    fn another_process(&self) -> Option<Command> {
        None
    }

    /// The way to the store's server, for the cases that disturb it. `None` where there is none, or more than one: then
    /// these cases are ignored.
    fn network(&self) -> Option<&dyn Network> {
        None
    }

    /// What the store says that it can do; the suite chooses its cases by it.
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }
}

/// A store whose server listens on this machine.
pub trait Network {
    /// The server's port.
    fn port(&self) -> u16;

    /// A further store on the same slots, which finds the server at another port.
    fn store_at(&self, port: u16) -> Arc<dyn LeaseStore>;
}

/// A program that is not ours: it reads and writes slots without any of this library's manners. Cases ask for
/// what the store's [`Capabilities`] allow only.
pub trait Foreign {
    /// Writes a token, whoever holds the slot; without a TTL it stays. Where slots carry no text it takes a
    /// free slot, and stands for the token itself.
    fn set(&self, slot: &SlotName, token: &str, ttl: Option<Duration>);

    /// Deletes whatever the slot carries, or ends whoever holds it.
    fn delete(&self, slot: &SlotName);

    /// Puts something into the slot that is not a string.
    fn plant_data(&self, slot: &SlotName);

    /// Whether what [`plant_data`](Self::plant_data) put there still is.
    fn carries_data(&self, slot: &SlotName) -> bool;

    /// Whether the slot carries exactly this token. Where slots carry no text: whether whoever holds the slot
    /// may be this token's.
    fn carries(&self, slot: &SlotName, token: &str) -> bool;

    /// The remaining TTL; `None` if the slot is free, or carries something without one.
    fn ttl(&self, slot: &SlotName) -> Option<Duration>;

    /// All names with `prefix` in them, those of fence counters too, which may begin otherwise. It has no characters
    /// that are special in patterns.
    fn names(&self, prefix: &str) -> Vec<String>;

    /// The names of all counters of fencing tokens; `None` from stores that keep none beside their slots.
    fn counters(&self) -> Option<Vec<String>> {
        None
    }
}
