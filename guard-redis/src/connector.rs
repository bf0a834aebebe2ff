//! What the pool manages: places for connections, not connections.

use std::convert::Infallible;
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::Connection;

use crate::unanswered::Identity;

/// A connection that works as far as is known.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    pub(crate) known: Known,
    /// The timeout that its socket has now, once one was set.
    pub(crate) timeout: Option<Duration>,
}

/// What is known of a connection.
#[derive(Clone)]
pub(crate) struct Known {
    /// When it was opened, or first seen.
    pub(crate) since: Instant,
    /// By what the server knows it, if it tells.
    pub(crate) identity: Option<Identity>,
}

/// A place for a connection, which whoever checks it out fills within the budget of its operation and
/// empties when the connection fails. So the pool itself never blocks on I/O, keeps no backoff, and hands
/// on no error by its text.
pub(crate) type Place = Option<Live>;

/// Makes places. The first one carries the connection that the builder opened, if it is for this pool.
pub(crate) struct Connector {
    /// Protects the builder's connection until the first place takes it.
    first: Mutex<Place>,
}

impl Connector {
    pub(crate) const fn new(first: Place) -> Self {
        Self {
            first: Mutex::new(first),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl r2d2::ManageConnection for Connector {
    type Connection = Place;
    type Error = Infallible;

    fn connect(&self) -> Result<Place, Infallible> {
        Ok(self.first.lock().take())
    }

    fn is_valid(&self, _: &mut Place) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Place) -> bool {
        false
    }
}
