//! One server, or whichever is the master.

use std::sync::Arc;

use crate::connection::pool::Pool;
use crate::connection::route::Route;
use crate::wakeups::server_wakeups::{Common, ServerWakeups};

/// The connections to one server, or to whichever is the master.
pub(crate) struct Server {
    pub(crate) pool: Pool,
    pub(crate) wakeups: ServerWakeups,
}

impl Server {
    pub(crate) fn new(pool: Pool, route: &dyn Route, common: &Common) -> Arc<Self> {
        Arc::new(Self {
            pool,
            wakeups: ServerWakeups::new(route, common),
        })
    }

    /// Gives up every connection: another server is the master now.
    #[cfg(feature = "sentinel")]
    pub(crate) fn distrust(&self) {
        self.pool.distrust();
        self.wakeups.distrust();
    }
}
