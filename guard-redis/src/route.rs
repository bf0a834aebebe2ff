//! Where connections come from.

use std::sync::Arc;

use guard_core::{Budget, StoreError};
use redis::ConnectionInfo;

use crate::connector::Live;
use crate::dial::dial;
#[cfg(feature = "sentinel")]
use crate::sentinel::Sentinels;

/// The way to the server that keeps the leases. Every new connection goes it anew, so a connection that failed
/// is followed by one to the server that is right then.
#[derive(Clone)]
pub(crate) enum Route {
    /// The server has one address.
    Direct(Arc<ConnectionInfo>),
    /// Sentinels know which server is the master.
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Sentinels>),
}

impl Route {
    pub(crate) fn direct(server: ConnectionInfo) -> Self {
        Self::Direct(Arc::new(server))
    }

    /// Opens a connection to the server that is right now.
    pub(crate) fn dial(&self, budget: Budget) -> Result<Live, StoreError> {
        match self {
            Self::Direct(server) => dial(server, budget),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinels) => sentinels.dial(budget),
        }
    }

    /// Whether a connection can lead to a replica that was the master when it was opened.
    pub(crate) const fn moves(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(_) => true,
        }
    }
}
