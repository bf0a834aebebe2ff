//! One server, which has an address.

use std::sync::Arc;

use guard_core::{ConfigError, SlotName, StoreError, Subscriber, Watch};
use redis::ConnectionInfo;

use crate::connection::exchange::Exchange;
use crate::connection::manager::RedisConnectionManager;
use crate::connection::operation::Operation;
use crate::connection::pool::Pool;
use crate::connection::route::Route;
use crate::protocol::failure::Failure;
use crate::topology::address::shown;
use crate::topology::contract::{Source, Topology};
use crate::topology::greeting::{greet, stands_alone};
use crate::topology::server::Server;
use crate::topology::settings::Settings;

/// One server, or one master at a time.
pub(crate) struct OneServer(pub(crate) Arc<Server>);

impl Topology for OneServer {
    fn operate(
        &self,
        _: &SlotName,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.0.pool.operate(operation, work)
    }

    fn watching(&self, slot: &SlotName) -> Option<Arc<Server>> {
        let server = &self.0;
        let watched = server.wakeups.is_watched(slot);
        watched.then(|| Arc::clone(server))
    }

    fn watch(self: Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.0.wakeups.watch(slot, subscriber)
    }

    fn cut_off(&self) {
        self.0.pool.cut_off();
    }
}

/// A server's address.
pub(crate) struct Address(pub(crate) ConnectionInfo);

impl Source for Address {
    fn open(self: Box<Self>, settings: Settings) -> Result<Arc<dyn Topology>, ConfigError> {
        let shown = self.shown(settings.database);
        let route: Arc<dyn Route> = Arc::new(Arc::new(settings.endpoint(self.0)?));
        let budget = settings.budget();
        let mut first = greet(&*route, settings.min_replicas, budget)
            .map_err(|error| ConfigError::connect(&shown, error))?;
        stands_alone(&mut first, budget)?;
        let pool = settings.pool(Arc::clone(&route), Some(first));
        let server = Server::new(pool, &*route, &settings.common);
        Ok(Arc::new(OneServer(server)))
    }

    fn manager(
        self: Box<Self>,
        settings: &Settings,
    ) -> Result<RedisConnectionManager, ConfigError> {
        let route = Arc::new(Arc::new(settings.endpoint(self.0)?));
        let timeout = settings.common.operation_timeout;
        Ok(RedisConnectionManager::new(route, timeout))
    }

    fn shown(&self, database: Option<i64>) -> String {
        let database = database.unwrap_or_else(|| self.0.redis_settings().db());
        format!("{} (database {database})", shown(&self.0))
    }
}

impl Source for r2d2::Pool<RedisConnectionManager> {
    fn open(self: Box<Self>, settings: Settings) -> Result<Arc<dyn Topology>, ConfigError> {
        settings.are_left_to_the_manager()?;
        let refuse = |error| ConfigError::connect(self.shown(None), error);
        let budget = settings.budget();
        let pooled = self.get_timeout(budget.remaining()).map_err(|error| {
            let none = StoreError::transient("it gave no connection in time");
            refuse(none.with_source(error))
        })?;
        let route = Arc::clone(pooled.route());
        drop(pooled);
        let mut first = greet(&*route, settings.min_replicas, budget).map_err(refuse)?;
        stands_alone(&mut first, budget)?;
        let common = &settings.common;
        let unanswered = Arc::clone(&common.unanswered);
        let timeout = common.operation_timeout;
        let pool = Pool::of_user(Arc::clone(&route), *self, timeout, unanswered);
        Ok(Arc::new(OneServer(Server::new(pool, &*route, common))))
    }

    fn shown(&self, _: Option<i64>) -> String {
        "the server of the pool".to_owned()
    }
}
