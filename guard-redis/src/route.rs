//! Where connections come from.

use std::sync::Arc;

use guard_core::{Budget, StoreError};

use crate::dial::dial;
use crate::endpoint::Endpoint;
use crate::live::Live;
#[cfg(feature = "sentinel")]
use crate::sentinel::Sentinels;
use crate::sockets::Sockets;

/// The way to the server that keeps the leases. Every new connection goes it anew, so a connection that failed
/// is followed by one to the server that is right then.
#[derive(Clone)]
pub(crate) enum Route {
    /// The server has one address.
    Direct(Arc<Endpoint>),
    /// Sentinels know which server is the master.
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Sentinels>, Arc<Sockets>),
}

impl Route {
    pub(crate) fn direct(server: Endpoint) -> Self {
        Self::Direct(Arc::new(server))
    }

    /// The same way, by other sockets.
    pub(crate) fn within(&self, sockets: &Arc<Sockets>) -> Self {
        match self {
            Self::Direct(server) => Self::direct(server.within(sockets)),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinels, _) => {
                Self::Sentinel(Arc::clone(sentinels), Arc::clone(sockets))
            }
        }
    }

    /// Opens a connection to the server that is right now.
    pub(crate) fn dial(&self, budget: Budget) -> Result<Live, StoreError> {
        match self {
            Self::Direct(server) => dial(server, budget),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinels, sockets) => sentinels.dial(sockets, budget),
        }
    }

    /// Whether a connection can lead to a replica that was the master when it was opened.
    pub(crate) const fn moves(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(..) => true,
        }
    }
}
