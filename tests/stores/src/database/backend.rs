//! The suite's view of a real database.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};

use super::{Client, Database, GuardBuilder};
use crate::daemon::Daemon;
use guard_conformance::{Backend, Foreign, Network};

/// A way to build guards. The fields are in the order in which they go.
#[derive(Debug)]
pub struct DatabaseBackend<D: Database> {
    name: &'static str,
    /// The path of the program `lease_holder`.
    lease_holder: &'static str,
    customise: fn(GuardBuilder<D>) -> GuardBuilder<D>,
    guard: D::Guard,
    /// The clients that hold slots, each with the token that it stands for.
    foreign: Mutex<HashMap<String, (String, Client<D>)>>,
    server: Daemon<D>,
}

impl<D: Database> DatabaseBackend<D> {
    /// Starts a server and makes guards on it as `customise` says.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start(
        name: &'static str,
        lease_holder: &'static str,
        customise: fn(GuardBuilder<D>) -> GuardBuilder<D>,
    ) -> Self {
        let server = Daemon::<D>::start();
        let guard = customise(server.builder()).build();
        Self {
            name,
            lease_holder,
            customise,
            guard: guard.expect("the server that was just started"),
            foreign: Mutex::default(),
            server,
        }
    }
}

impl<D: Database> Backend for DatabaseBackend<D> {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        D::store(&self.guard)
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = self.server.builder().settings(config);
        Ok(Arc::new((self.customise)(builder).build()?))
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }

    fn another_process(&self) -> Option<Command> {
        let mut command = Command::new(self.lease_holder);
        command.arg(self.server.url());
        Some(command)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(self)
    }
}

impl<D: Database> Network for DatabaseBackend<D> {
    fn port(&self) -> u16 {
        self.server.port()
    }

    fn store_at(&self, port: u16) -> Arc<dyn LeaseStore> {
        let guard = (self.customise)(GuardBuilder::new(D::url(port))).build();
        D::store(&guard.expect("the server that was just started"))
    }
}

/// The database's client is the program that is not ours.
impl<D: Database> Foreign for DatabaseBackend<D> {
    fn set(&self, slot: &SlotName, token: &str, _: Option<Duration>) {
        let mut client = Client::start(&self.server);
        assert!(client.lock(slot), "the slot is free");
        let holder = (token.to_owned(), client);
        self.foreign
            .lock()
            .unwrap()
            .insert(slot.to_string(), holder);
    }

    fn delete(&self, slot: &SlotName) {
        // Whoever takes the lock next is not meant.
        if let Some(holder) = self.server.holder(slot) {
            self.server.end(&holder);
        }
        self.foreign.lock().unwrap().remove(slot.as_str());
    }

    fn plant_data(&self, _: &SlotName) {
        panic!("a lock carries no data");
    }

    fn carries_data(&self, _: &SlotName) -> bool {
        false
    }

    fn carries(&self, slot: &SlotName, token: &str) -> bool {
        let holder = self.server.holder(slot);
        match self.foreign.lock().unwrap().get(slot.as_str()) {
            Some((foreign, client)) => foreign == token && holder.as_deref() == Some(client.id()),
            None => holder.is_some(),
        }
    }

    fn ttl(&self, _: &SlotName) -> Option<Duration> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        panic!("locks are not listed")
    }
}
