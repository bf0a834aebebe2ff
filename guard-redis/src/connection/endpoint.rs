//! A server's address, and all that it takes to get there.

use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};
#[cfg(feature = "tls-rustls")]
use rustls::ClientConfig;

use crate::connection::open_sockets::OpenSockets;

/// Where a server is, who we are to it, whom we trust, and who has the sockets.
#[derive(Clone)]
pub(crate) struct Endpoint {
    info: ConnectionInfo,
    /// `None` where TLS is not spoken.
    #[cfg(feature = "tls-rustls")]
    tls: Option<Arc<ClientConfig>>,
    sockets: Arc<OpenSockets>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.addr()).finish()
    }
}

impl Endpoint {
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        Self {
            info,
            #[cfg(feature = "tls-rustls")]
            tls: None,
            sockets: OpenSockets::new(),
        }
    }

    #[cfg(feature = "tls-rustls")]
    pub(crate) fn with_tls(mut self, tls: Option<Arc<ClientConfig>>) -> Self {
        self.tls = tls;
        self
    }

    #[cfg(feature = "tls-rustls")]
    pub(crate) const fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// The same with other sockets.
    pub(crate) fn within(&self, sockets: &Arc<OpenSockets>) -> Self {
        Self {
            sockets: Arc::clone(sockets),
            ..self.clone()
        }
    }

    /// Another server, reached in the same way.
    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(crate) fn at(&self, addr: ConnectionAddr) -> Self {
        let info = self.info.clone().set_addr(addr);
        Self {
            info,
            ..self.clone()
        }
    }

    /// The same server, to which we are somebody else.
    #[cfg(feature = "sentinel")]
    pub(crate) fn with_settings(self, settings: RedisConnectionInfo) -> Self {
        Self {
            info: self.info.clone().set_redis_settings(settings),
            ..self
        }
    }

    pub(crate) const fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    pub(crate) fn addr(&self) -> &ConnectionAddr {
        self.info.addr()
    }

    pub(crate) fn settings(&self) -> &RedisConnectionInfo {
        self.info.redis_settings()
    }

    pub(crate) const fn sockets(&self) -> &Arc<OpenSockets> {
        &self.sockets
    }
}
