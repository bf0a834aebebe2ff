//! Connections for operations: checked out, filled, repeated once, given back or dropped.

use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, ConfigError, LeaseToken, StoreError};
use parking_lot::Mutex;
use r2d2::{NopErrorHandler, Pool, PooledConnection};
use redis::{Client, Connection, ConnectionInfo};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::connector::{Connector, Known, Live};
use crate::dial::dial;
use crate::session::{Failure, Session};
use crate::unanswered::{Identity, Unanswered};

/// The pool's one worker.
const POOL_THREAD_NAME: &str = "guard-pool";

/// The connections of a store.
pub(crate) struct Links {
    info: ConnectionInfo,
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
    /// Links with a pool of their own, which begins with the connection `first`.
    pub(crate) fn new(
        info: ConnectionInfo,
        size: u32,
        first: Live,
        unanswered: Arc<Unanswered>,
    ) -> Result<Self, ConfigError> {
        let worker = start_worker()?;
        let pool = Pool::builder()
            .max_size(size)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .error_handler(Box::new(NopErrorHandler))
            .thread_pool(Arc::new(worker))
            .build_unchecked(Connector::new(first));
        Ok(Self::over(info, AnyPool::Own(pool), unanswered))
    }

    /// Links over a pool that belongs to the user. Connections that the pool cannot give come from `info`.
    pub(crate) const fn given(
        info: ConnectionInfo,
        pool: Pool<Client>,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        Self::over(info, AnyPool::Given(pool), unanswered)
    }

    const fn over(info: ConnectionInfo, pool: AnyPool, unanswered: Arc<Unanswered>) -> Self {
        Self {
            info,
            pool,
            unanswered,
            last_failure: Mutex::new(None),
        }
    }

    /// Does an idempotent operation on a connection of the pool. If the connection fails and was not new,
    /// the operation is repeated once, at once, on a new one. `brings` is the token that the operation may
    /// put into a slot.
    pub(crate) fn operate<T>(
        &self,
        operation: &str,
        budget: Budget,
        brings: Option<&LeaseToken>,
        work: impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut link = self.check_out(budget)?;
        let trusted_since = *self.last_failure.lock();
        let is_new = link.forget_if_older(trusted_since) || link.introduce(budget).is_err();
        if is_new {
            link.fill(dial(&self.info, budget)?);
        }
        match self.attempt(&mut link, budget, brings, false, &work) {
            Ok(value) => Ok(value),
            Err(failure @ Failure::Connection(_)) if !is_new => {
                let first = failure.into_store_error(operation);
                // The first try may still take effect: without an answer to the second it stays unknown.
                link.fill(dial(&self.info, budget).map_err(|_| first)?);
                self.attempt(&mut link, budget, brings, true, &work)
                    .map_err(|failure| failure.into_store_error(operation).with_unknown_outcome())
            }
            Err(failure) => Err(failure.into_store_error(operation)),
        }
    }

    fn attempt<T>(
        &self,
        link: &mut Link,
        budget: Budget,
        brings: Option<&LeaseToken>,
        repeated: bool,
        work: &impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(connection) = link.connection() else {
            return Err(Failure::NotSent(StoreError::transient("no connection")));
        };
        let mut session = Session::new(connection, budget);
        session.repeated = repeated;
        let result = work(&mut session);
        match &result {
            Err(Failure::Connection(_)) => {
                if let Some(token) = brings {
                    self.unanswered.add(token, link.identity());
                }
                link.empty();
                *self.last_failure.lock() = Some(Instant::now());
            }
            // Nothing was sent, but the socket may be the reason.
            Err(Failure::NotSent(_)) => link.empty(),
            Ok(_) | Err(Failure::Answer(_) | Failure::Unreplicated(_)) => link.give_back_clean(),
        }
        result
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

/// Starts the pool's worker. Its crate panics when the system gives no thread.
fn start_worker() -> Result<ScheduledThreadPool, ConfigError> {
    let start = || {
        ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(POOL_THREAD_NAME)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    };
    catch_unwind(start).map_err(|_| ConfigError::Thread {
        name: POOL_THREAD_NAME.to_owned(),
        source: Arc::new(io::Error::other("the system gave no thread")),
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
    fn introduce(&mut self, budget: Budget) -> Result<(), Failure> {
        if let Self::Given(pooled) = self
            && PooledConnection::extensions(pooled)
                .get::<Known>()
                .is_none()
        {
            let since = Instant::now();
            let identity = Identity::ask(&mut Session::new(pooled, budget))?;
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

    fn connection(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Own(place) => place.as_mut().map(|live| &mut live.connection),
            Self::Given(pooled) => Some(pooled),
        }
    }

    fn identity(&self) -> Option<Identity> {
        match self {
            Self::Own(place) => place.as_ref()?.known.identity.clone(),
            Self::Given(pooled) => PooledConnection::extensions(pooled)
                .get::<Known>()?
                .identity
                .clone(),
        }
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
