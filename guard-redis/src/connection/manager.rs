//! Connections for a pool that belongs to the user.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, StoreError};
use r2d2::ManageConnection;
use redis::cmd;

use crate::connection::exchange::Exchange;
use crate::connection::open_connection::OpenConnection;
use crate::connection::route::Route;
use crate::protocol::answer::Pong;

/// Opens the connections of a pool, for [`from_pool`](crate::RedisSandboxExecutionGuard::from_pool). Made by
/// [`connection_manager`](crate::RedisGuardBuilder::connection_manager).
#[derive(Clone)]
pub struct RedisConnectionManager {
    route: Arc<dyn Route>,
    operation_timeout: Duration,
}

/// A connection of a pool. It is for guards only: what they know of it would not hold if others used it, too.
pub struct RedisConnection {
    route: Arc<dyn Route>,
    /// `None` once it has failed.
    pub(crate) opened: Option<OpenConnection>,
}

impl RedisConnectionManager {
    pub(crate) const fn new(route: Arc<dyn Route>, operation_timeout: Duration) -> Self {
        Self {
            route,
            operation_timeout,
        }
    }
}

impl RedisConnection {
    /// The way to its server.
    pub(crate) const fn route(&self) -> &Arc<dyn Route> {
        &self.route
    }
}

impl ManageConnection for RedisConnectionManager {
    type Connection = RedisConnection;
    type Error = StoreError;

    /// Opens a connection within the operation timeout of the builder that made the manager.
    fn connect(&self) -> Result<RedisConnection, StoreError> {
        let opened = self.route.dial(Budget::new(self.operation_timeout))?;
        Ok(RedisConnection {
            route: Arc::clone(&self.route),
            opened: Some(opened),
        })
    }

    /// Whether the server answers within the operation timeout. Guards ask by themselves when there is reason to, and
    /// what the server is; so a pool for guards need not ask.
    fn is_valid(&self, connection: &mut RedisConnection) -> Result<(), StoreError> {
        let Some(opened) = &mut connection.opened else {
            return Err(StoreError::transient("the connection has failed"));
        };
        let mut exchange = Exchange::on(opened, Budget::new(self.operation_timeout));
        let answer = exchange.call::<Pong>(&cmd("PING"));
        answer
            .map(drop)
            .map_err(|failure| failure.into_store_error("checking a connection"))
    }

    fn has_broken(&self, connection: &mut RedisConnection) -> bool {
        connection.opened.is_none()
    }
}

impl fmt::Debug for RedisConnectionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnectionManager")
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}
