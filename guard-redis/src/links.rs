//! Connections for operations: checked out, filled, repeated once, given back or dropped.

use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, ConfigError, StoreError};
use parking_lot::Mutex;
use r2d2::{NopErrorHandler, Pool, PooledConnection};
use redis::Client;
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::connector::{Connector, Known, Live, Place};
use crate::route::Route;
use crate::session::{Failure, Operation, Session};
use crate::unanswered::{Identity, Unanswered};

/// The one worker of all pools.
const POOL_THREAD_NAME: &str = "guard-pool";

/// The connections to one server, or to whichever is the master.
pub(crate) struct Links {
    route: Route,
    pool: AnyPool,
    unanswered: Arc<Unanswered>,
    /// Protects when a connection last failed. Connections opened before are not trusted any more: what
    /// ended one has likely ended them all.
    last_failure: Mutex<Option<Instant>>,
}

enum AnyPool {
    Own(Pool<Connector>),
    Given(Pool<Client>),
}

impl Links {
    /// Links with a pool of their own, which begins with the connection `first` if there is one.
    pub(crate) fn new(
        route: Route,
        size: u32,
        first: Place,
        worker: &Arc<ScheduledThreadPool>,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        let pool = Pool::builder()
            .max_size(size)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .error_handler(Box::new(NopErrorHandler))
            .thread_pool(Arc::clone(worker))
            .build_unchecked(Connector::new(first));
        Self::over(route, AnyPool::Own(pool), unanswered)
    }

    /// Links over a pool that belongs to the user. Connections that the pool cannot give come by `route`.
    pub(crate) const fn given(
        route: Route,
        pool: Pool<Client>,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        Self::over(route, AnyPool::Given(pool), unanswered)
    }

    const fn over(route: Route, pool: AnyPool, unanswered: Arc<Unanswered>) -> Self {
        Self {
            route,
            pool,
            unanswered,
            last_failure: Mutex::new(None),
        }
    }

    /// Does an idempotent operation on a connection of the pool. If the connection fails, or its server is no
    /// master any more, and the connection was not new, the operation is repeated once, at once, on a new one.
    pub(crate) fn operate<T>(
        &self,
        operation: &mut Operation<'_>,
        work: impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let budget = operation.budget;
        let mut link = self.check_out(budget).map_err(Failure::NotSent)?;
        let trusted_since = *self.last_failure.lock();
        let is_new =
            link.forget_if_older(trusted_since) || link.introduce(&self.route, budget).is_err();
        if is_new {
            link.fill(self.route.dial(budget).map_err(Failure::NotSent)?);
        }
        let result = self.attempt(&mut link, operation, &work);
        // A connection that did not answer in time has spent the budget.
        let failed = |failure: &Failure| match failure {
            Failure::Connection(error) => !error.is_timeout(),
            failure => failure.is_demotion(),
        };
        if is_new || !result.as_ref().is_err_and(failed) {
            return result;
        }
        match self.route.dial(budget) {
            Ok(live) => {
                link.fill(live);
                self.attempt(&mut link, operation, &work)
            }
            // The first failure says more.
            Err(_) => result,
        }
    }

    fn attempt<T>(
        &self,
        link: &mut Link,
        operation: &mut Operation<'_>,
        work: &impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let server = link
            .identity()
            .map(|identity| Arc::clone(identity.server()));
        let Some(mut session) = link.session(operation.budget) else {
            return Err(Failure::NotSent(StoreError::transient("no connection")));
        };
        session.server = server;
        session.repeated = operation.unanswered;
        session.asking = operation.asking;
        session.may_be_demoted = self.route.moves();
        let result = work(&mut session);
        match &result {
            Err(Failure::Connection(_)) => {
                operation.unanswered = true;
                if let Some(token) = operation.brings {
                    self.unanswered.add(token, link.identity().cloned());
                }
                self.fail(link);
            }
            Err(failure) if failure.is_demotion() => self.fail(link),
            Err(failure) if self.route.moves() && failure.lacks_replicas() => self.fail(link),
            // Nothing was sent, but the socket may be the reason.
            Err(Failure::NotSent(_)) => link.empty(),
            Ok(_) | Err(_) => link.give_back_clean(),
        }
        result
    }

    /// Gives up a connection, and with it all that are older.
    fn fail(&self, link: &mut Link) {
        link.empty();
        self.distrust();
    }

    /// Gives up all connections that there are, those in use once they are given back.
    pub(crate) fn distrust(&self) {
        *self.last_failure.lock() = Some(Instant::now());
    }

    fn check_out(&self, budget: Budget) -> Result<Link, StoreError> {
        let remaining = budget.remaining();
        let none_free = |error: r2d2::Error| {
            StoreError::transient(
                "no pooled connection came free within the operation timeout (see `pool_size`)",
            )
            .with_source(error)
        };
        match &self.pool {
            AnyPool::Own(pool) => pool.get_timeout(remaining).map(Link::Own),
            AnyPool::Given(pool) => pool.get_timeout(remaining).map(Link::Given),
        }
        .map_err(none_free)
    }
}

/// Starts the worker of the pools. Its crate panics when the system gives no thread.
pub(crate) fn start_worker() -> Result<Arc<ScheduledThreadPool>, ConfigError> {
    let start = || {
        ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(POOL_THREAD_NAME)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    };
    catch_unwind(start).map(Arc::new).map_err(|_| {
        let error = io::Error::other("the system gave no thread");
        ConfigError::thread(POOL_THREAD_NAME, error)
    })
}

/// A connection that is checked out, or the place of one.
enum Link {
    Own(PooledConnection<Connector>),
    /// The pool always has a connection in the place. What is known of it stands in the extensions.
    Given(PooledConnection<Client>),
}

/// Stands in the extensions of a connection of the user's pool that failed: a late answer may be waiting in
/// it.
struct Failed;

impl Link {
    /// Forgets the connection if it failed or was opened before `failure`; answers whether there is none now.
    fn forget_if_older(&mut self, failure: Option<Instant>) -> bool {
        let is_old = |known: &Known| failure.is_some_and(|failure| known.since <= failure);
        match self {
            Self::Own(place) => {
                if place.as_ref().is_some_and(|live| is_old(&live.known)) {
                    **place = None;
                }
                place.is_none()
            }
            Self::Given(pooled) => {
                let extensions = PooledConnection::extensions(pooled);
                extensions.get::<Failed>().is_some()
                    || extensions.get::<Known>().is_some_and(is_old)
            }
        }
    }

    /// Learns by what the server knows a connection that the user's pool opened.
    fn introduce(&mut self, route: &Route, budget: Budget) -> Result<(), Failure> {
        if let (Self::Given(pooled), Route::Direct(server)) = (self, route)
            && PooledConnection::extensions(pooled)
                .get::<Known>()
                .is_none()
        {
            let since = Instant::now();
            let identity = Identity::ask(&mut Session::new(pooled, budget), server)?;
            PooledConnection::extensions_mut(pooled).insert(Known { since, identity });
        }
        Ok(())
    }

    fn fill(&mut self, live: Live) {
        match self {
            Self::Own(place) => **place = Some(live),
            Self::Given(pooled) => {
                **pooled = live.connection;
                let extensions = PooledConnection::extensions_mut(pooled);
                extensions.remove::<Failed>();
                extensions.insert(live.known);
            }
        }
    }

    fn empty(&mut self) {
        match self {
            Self::Own(place) => **place = None,
            Self::Given(pooled) => {
                PooledConnection::extensions_mut(pooled).insert(Failed);
            }
        }
    }

    fn session(&mut self, budget: Budget) -> Option<Session<'_>> {
        match self {
            Self::Own(place) => Some(Session::of(place.as_mut()?, budget)),
            Self::Given(pooled) => Some(Session::new(pooled, budget)),
        }
    }

    fn known(&self) -> Option<&Known> {
        match self {
            Self::Own(place) => place.as_ref().map(|live| &live.known),
            Self::Given(pooled) => PooledConnection::extensions(pooled).get(),
        }
    }

    fn identity(&self) -> Option<&Identity> {
        self.known()?.identity.as_ref()
    }

    /// The user's pool gets its connection back without the timeouts of this operation.
    fn give_back_clean(&mut self) {
        if let Self::Given(pooled) = self {
            let forever: Option<Duration> = None;
            let reset = pooled
                .set_read_timeout(forever)
                .and_then(|()| pooled.set_write_timeout(forever));
            if reset.is_err() {
                self.empty();
            }
        }
    }
}
