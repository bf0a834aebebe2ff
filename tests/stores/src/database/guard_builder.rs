//! Building guards on whichever database.

use std::marker::PhantomData;

use guard_core::{ConfigError, GuardConfig, guard_settings};
use guard_session::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS, session_settings};

use super::Database;

/// The settings of a guard on a database; its own builder checks them.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct GuardBuilder<D> {
    pub(crate) address: String,
    pub(crate) config: GuardConfig,
    pub(crate) pool_size: u32,
    pub(crate) wait_connections: u32,
    database: PhantomData<D>,
}

impl<D: Database> GuardBuilder<D> {
    /// Starts building a guard for the server at `address`.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            config: GuardConfig::default(),
            pool_size: DEFAULT_POOL_SIZE,
            wait_connections: DEFAULT_WAIT_CONNECTIONS,
            database: PhantomData,
        }
    }

    guard_settings!();
    session_settings!();

    /// Connects and makes the guard.
    ///
    /// # Errors
    ///
    /// Those of the store's own builder.
    pub fn build(self) -> Result<D::Guard, ConfigError> {
        D::build(self)
    }
}
