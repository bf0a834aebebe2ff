//! The master that sentinels name, as one server.

use std::sync::Arc;

use guard_core::{ConfigError, SlotName, Subscriber, Watch};
use redis::{ConnectionInfo, RedisConnectionInfo};

use crate::connection::exchange::Exchange;
use crate::connection::operation::Operation;
use crate::connection::route::Route;
use crate::protocol::failure::Failure;
use crate::topology::address::list;
use crate::topology::contract::{Source, Topology};
use crate::topology::greeting::greet;
use crate::topology::one_server::OneServer;
use crate::topology::sentinel::news;
use crate::topology::sentinel::sentinels::{Sentinels, ToMaster};
use crate::topology::server::Server;
use crate::topology::settings::Settings;
use crate::wakeups::worker::Worker;

/// Whichever server is the master, and the thread that hears of the next one.
struct WatchedMaster {
    master: OneServer,
    news: Worker,
}

impl Topology for WatchedMaster {
    fn operate(
        &self,
        slot: &SlotName,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.master.operate(slot, operation, work)
    }

    fn watching(&self, slot: &SlotName) -> Option<Arc<Server>> {
        self.master.watching(slot)
    }

    fn watch(self: Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.master.0.wakeups.watch(slot, subscriber)
    }

    fn cut_off(&self) {
        self.master.cut_off();
    }
}

impl Drop for WatchedMaster {
    /// Both threads are waited for: let them end together.
    fn drop(&mut self) {
        self.master.0.wakeups.stop();
        self.news.stop();
    }
}

/// The addresses of some sentinels, and their name for the master.
pub(crate) struct ByName {
    pub(crate) sentinels: Vec<ConnectionInfo>,
    pub(crate) master_name: String,
}

impl Source for ByName {
    fn open(self: Box<Self>, settings: Settings) -> Result<Arc<dyn Topology>, ConfigError> {
        if self.sentinels.is_empty() {
            return Err(ConfigError::setting("sentinels", "there are none"));
        }
        let shown = self.shown(settings.database);
        // The sentinels' own credentials are not the master's.
        let of_master = settings.redis_settings(RedisConnectionInfo::default())?;
        let sentinels = self.sentinels.into_iter().map(|it| settings.secure(it));
        let sentinels = sentinels.collect::<Result<_, _>>()?;
        let sentinels = Arc::new(Sentinels::new(sentinels, self.master_name, of_master));
        let route: Arc<dyn Route> = Arc::new(ToMaster::new(&sentinels));
        let first = greet(&*route, settings.min_replicas, settings.budget())
            .map_err(|error| ConfigError::connect(&shown, error))?;
        let pool = settings.pool(Arc::clone(&route), Some(first));
        let common = &settings.common;
        let server = Server::new(pool, &*route, common);
        let news = news::listen(&server, sentinels, common.operation_timeout, common.grace)?;
        let master = OneServer(server);
        Ok(Arc::new(WatchedMaster { master, news }))
    }

    fn shown(&self, database: Option<i64>) -> String {
        let (database, sentinels) = (database.unwrap_or_default(), list(&self.sentinels));
        let name = &self.master_name;
        format!("the master {name:?} (database {database}) of the sentinels {sentinels}")
    }
}
