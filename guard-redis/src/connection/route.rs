//! Where connections come from.

use std::sync::Arc;

use guard_core::{Budget, StoreError};

use crate::connection::dial::dial;
use crate::connection::endpoint::Endpoint;
use crate::connection::open_connection::OpenConnection;
use crate::connection::open_sockets::OpenSockets;

/// The way to the server that keeps the leases. Every new connection goes it anew, so a connection that failed
/// is followed by one to the server that is right then.
pub(crate) trait Route: Send + Sync {
    /// Opens a connection to the server that is right now.
    fn dial(&self, budget: Budget) -> Result<OpenConnection, StoreError>;

    /// The same way, by other sockets.
    fn within(&self, sockets: &Arc<OpenSockets>) -> Arc<dyn Route>;

    /// The sockets of the connections that are opened.
    fn sockets(&self) -> &Arc<OpenSockets>;

    /// Whether a connection can lead to a replica that was the master when it was opened, while a new one would not.
    fn moves(&self) -> bool {
        false
    }
}

/// The server has one address.
impl Route for Arc<Endpoint> {
    fn dial(&self, budget: Budget) -> Result<OpenConnection, StoreError> {
        dial(self, budget)
    }

    fn within(&self, sockets: &Arc<OpenSockets>) -> Arc<dyn Route> {
        Arc::new(Arc::new(Endpoint::within(self, sockets)))
    }

    fn sockets(&self) -> &Arc<OpenSockets> {
        Endpoint::sockets(self)
    }
}
