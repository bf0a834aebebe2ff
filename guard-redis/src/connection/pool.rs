//! Connections for operations: checked out, proven, repeated once, given back or dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, StoreError};
use parking_lot::Mutex;
use r2d2::PooledConnection;
use redis::{Value, cmd};

use crate::connection::dial::share;
use crate::connection::exchange::Exchange;
use crate::connection::manager::RedisConnectionManager;
use crate::connection::open_connection::OpenConnection;
use crate::connection::operation::Operation;
use crate::connection::route::Route;
use crate::connection::semaphore::Semaphore;
use crate::connection::unanswered::Unanswered;
use crate::protocol::error::out_of_time;
use crate::protocol::failure::Failure;

/// What part of its time an operation waits for its turn at most: the rest is for the answer.
const SHARE_FOR_THE_TURN: usize = 2;
/// What part of the operation timeout must be left when a command is sent. Who has less would most likely give the
/// connection up before the answer comes, and so cost the next one a new connection.
const SHARE_FOR_AN_ANSWER: u32 = 16;
/// What part of its time an operation gives a connection to prove that it still works.
const SHARE_FOR_PROOF: usize = 4;

/// A connection that was idle for longer than this is looked at before it is used: its end may have come.
const LOOKED_AT_AFTER: Duration = Duration::from_millis(100);
/// A connection that was idle for longer than this has to answer before it is trusted: what is between may have dropped
/// it without a word.
const PROVEN_AFTER: Duration = Duration::from_secs(2);
/// A connection that was idle for longer than this is not worth a question.
const LONGEST_IDLE: Duration = Duration::from_secs(60);
/// The age that no connection outlives, so that a change of the way to the server is followed.
const LONGEST_LIFE: Duration = Duration::from_secs(30 * 60);

/// The connections to one server, or to whichever is the master.
pub(crate) struct Pool {
    route: Arc<dyn Route>,
    /// How many operations run at once, and who is next.
    permits: Semaphore,
    idle: Idle,
    unanswered: Arc<Unanswered>,
    operation_timeout: Duration,
    /// Protects since when connections are trusted.
    trust: Mutex<Trust>,
}

/// Which connections are trusted, by when they were opened and last answered.
#[derive(Clone, Copy, Default)]
struct Trust {
    /// When a connection last ended, or was of no use. Those opened before are dropped: what ended one has likely
    /// ended them all.
    failed: Option<Instant>,
    /// When a command was sent that was not answered in time. Connections that have not answered since have to prove
    /// that they still do: the server may be slow, or not there any more.
    unanswered: Option<Instant>,
}

/// The connections that nobody uses.
enum Idle {
    /// Protects them, the one used last at the end.
    Own(Mutex<Vec<OpenConnection>>),
    /// Those of a pool that belongs to the user.
    Users(r2d2::Pool<RedisConnectionManager>),
}

impl Pool {
    /// A pool of its own, which begins with the connection `first` if there is one.
    pub(crate) fn new(
        route: Arc<dyn Route>,
        size: u32,
        first: Option<OpenConnection>,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        let idle = Idle::Own(Mutex::new(first.into_iter().collect()));
        Self::over(route, size, idle, operation_timeout, unanswered)
    }

    /// One over a pool that belongs to the user, whose connections all lead to the same server.
    pub(crate) fn of_user(
        route: Arc<dyn Route>,
        pool: r2d2::Pool<RedisConnectionManager>,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        let size = pool.max_size();
        let idle = Idle::Users(pool);
        Self::over(route, size, idle, operation_timeout, unanswered)
    }

    fn over(
        route: Arc<dyn Route>,
        size: u32,
        idle: Idle,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        Self {
            route,
            permits: Semaphore::new(size),
            idle,
            unanswered,
            operation_timeout,
            trust: Mutex::default(),
        }
    }

    /// Does an idempotent operation on a connection of the pool. If the connection fails, or its server is no
    /// master any more, the operation is repeated once, at once, on a new one.
    pub(crate) fn operate(
        &self,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let budget = operation.budget;
        let patience = share(budget, SHARE_FOR_THE_TURN).deadline();
        let permit = self.permits.acquire(patience);
        let _permit = permit.ok_or_else(|| Failure::NotSent(none_free()))?;
        let mut lent = self.check_out(budget).map_err(Failure::NotSent)?;
        let place = lent.place();
        let trusted = match place {
            Some(connection) => self.trusts(connection, budget),
            None => false,
        };
        if !trusted {
            self.fill(place, budget).map_err(Failure::NotSent)?;
        }
        if budget.remaining() < self.operation_timeout / SHARE_FOR_AN_ANSWER {
            self.give_back(lent);
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        let mut result = self.attempt(place, operation, work);
        // A connection that did not answer in time has spent the budget.
        let failed = |failure: &Failure| match failure {
            Failure::Connection(error) => !error.is_timeout(),
            failure => failure.is_demotion(),
        };
        if result.as_ref().is_err_and(failed)
            // The first failure says more than one to connect.
            && self.fill(place, budget).is_ok()
        {
            result = self.attempt(place, operation, work);
        }
        self.give_back(lent);
        result
    }

    /// Works on the connection in the place, and takes it out if it fails.
    fn attempt(
        &self,
        place: &mut Option<OpenConnection>,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let Some(connection) = place else {
            return Err(Failure::NotSent(StoreError::transient("no connection")));
        };
        let mut exchange = Exchange::on(connection, operation.budget);
        exchange.repeated = operation.unanswered;
        exchange.asking = operation.asking;
        let result = self
            .unanswered
            .during(operation.brings, &mut exchange, work);
        let fails = |failure: &Failure| {
            failure.is_demotion() || (self.route.moves() && failure.lacks_replicas())
        };
        match &result {
            Err(Failure::Connection(error)) => {
                operation.unanswered = true;
                *place = None;
                if error.is_timeout() {
                    self.trust.lock().unanswered = Some(begun);
                } else {
                    self.distrust();
                }
            }
            Err(failure) if fails(failure) => {
                *place = None;
                self.distrust();
            }
            // Where nothing was sent there is nothing to be seen.
            Err(Failure::NotSent(_)) => {}
            Ok(()) | Err(_) => connection.answered = Instant::now(),
        }
        result
    }

    /// Gives up all connections that there are, those in use once they are given back.
    pub(crate) fn distrust(&self) {
        self.trust.lock().failed = Some(Instant::now());
    }

    /// Ends what is under way, and every later operation, on connections of the pool's own.
    pub(crate) fn cut_off(&self) {
        if let Idle::Own(_) = self.idle {
            self.route.sockets().hang_up();
        }
    }

    fn check_out(&self, budget: Budget) -> Result<Lent, StoreError> {
        match &self.idle {
            Idle::Own(idle) => Ok(Lent::Own(idle.lock().pop())),
            Idle::Users(pool) => {
                // The pool adds it to the clock.
                let patience = share(budget, SHARE_FOR_THE_TURN)
                    .remaining()
                    .min(LONGEST_LIFE);
                match pool.get_timeout(patience) {
                    Ok(pooled) => Ok(Lent::Users(pooled)),
                    Err(error) => Err(none_free().with_source(error)),
                }
            }
        }
    }

    /// Whether a connection that was checked out can be used as it is.
    fn trusts(&self, connection: &mut OpenConnection, budget: Budget) -> bool {
        let trust = *self.trust.lock();
        let idle = connection.answered.elapsed();
        let failed = |failed| connection.since <= failed;
        if trust.failed.is_some_and(failed)
            || idle > LONGEST_IDLE
            || connection.since.elapsed() > LONGEST_LIFE
        {
            return false;
        }
        if idle > LOOKED_AT_AFTER && connection.wire.is_over() {
            self.distrust();
            return false;
        }
        let in_doubt = |since| connection.answered < since;
        if idle <= PROVEN_AFTER && !trust.unanswered.is_some_and(in_doubt) {
            return true;
        }
        let proven = proves(connection, share(budget, SHARE_FOR_PROOF));
        if !proven {
            // No older connection is any better.
            self.distrust();
        }
        proven
    }

    /// Puts a new connection in the place of what is there.
    fn fill(&self, place: &mut Option<OpenConnection>, budget: Budget) -> Result<(), StoreError> {
        *place = None;
        *place = Some(self.route.dial(budget)?);
        Ok(())
    }

    fn give_back(&self, lent: Lent) {
        // A pool of the user's gets its connection back when this is dropped.
        let (Lent::Own(Some(connection)), Idle::Own(idle)) = (lent, &self.idle) else {
            return;
        };
        let mut idle = idle.lock();
        idle.push(connection);
        // More than are needed now are closed one by one.
        let is_old = |connection: &OpenConnection| connection.answered.elapsed() > LONGEST_IDLE;
        let old = idle.first().is_some_and(is_old).then(|| idle.remove(0));
        drop(idle);
        drop(old);
    }
}

/// Asks the server whether it is still there.
fn proves(connection: &mut OpenConnection, budget: Budget) -> bool {
    let answer = Exchange::on(connection, budget).call::<Value>(&cmd("PING"));
    let answers = matches!(answer, Ok(_) | Err(Failure::Answer(_)));
    if answers {
        connection.answered = Instant::now();
    }
    answers
}

fn none_free() -> StoreError {
    StoreError::transient("no pooled connection came free in time (see `pool_size`)")
}

/// The place of a connection that is checked out. It is empty if there was none, or it has failed.
enum Lent {
    Own(Option<OpenConnection>),
    Users(PooledConnection<RedisConnectionManager>),
}

impl Lent {
    fn place(&mut self) -> &mut Option<OpenConnection> {
        match self {
            Self::Own(place) => place,
            Self::Users(pooled) => &mut pooled.opened,
        }
    }
}
