//! Connections for operations: checked out, proven, repeated once, given back or dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, StoreError};
use parking_lot::Mutex;
use r2d2::{Pool, PooledConnection};
use redis::{Client, Value, cmd};

use crate::dial::share;
use crate::error::{classify, out_of_time};
use crate::failure::Failure;
use crate::live::{Known, Live};
use crate::route::Route;
use crate::session::{Operation, Session};
use crate::turns::Turns;
use crate::unanswered::{Identity, Unanswered};

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
pub(crate) struct Links {
    route: Route,
    /// How many operations run at once, and who is next.
    turns: Turns,
    pool: AnyPool,
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

enum AnyPool {
    /// Protects the connections that nobody uses, the one used last at the end.
    Own(Mutex<Vec<Live>>),
    /// Connections that the pool cannot give come from the client.
    Given(Box<Client>, Pool<Client>),
}

impl Links {
    /// Links of their own, which begin with the connection `first` if there is one.
    pub(crate) fn new(
        route: Route,
        size: u32,
        first: Option<Live>,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        let pool = AnyPool::Own(Mutex::new(first.into_iter().collect()));
        Self::over(route, size, pool, operation_timeout, unanswered)
    }

    /// Links over a pool that belongs to the user.
    pub(crate) fn given(
        route: Route,
        client: Client,
        pool: Pool<Client>,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        let size = pool.max_size();
        let pool = AnyPool::Given(Box::new(client), pool);
        Self::over(route, size, pool, operation_timeout, unanswered)
    }

    fn over(
        route: Route,
        size: u32,
        pool: AnyPool,
        operation_timeout: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        Self {
            route,
            turns: Turns::new(size),
            pool,
            unanswered,
            operation_timeout,
            trust: Mutex::default(),
        }
    }

    /// Does an idempotent operation on a connection of the pool. If the connection fails, or its server is no
    /// master any more, the operation is repeated once, at once, on a new one.
    pub(crate) fn operate<T>(
        &self,
        operation: &mut Operation<'_>,
        work: impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let budget = operation.budget;
        let patience = share(budget, SHARE_FOR_THE_TURN).deadline();
        let turn = self.turns.wait(patience);
        let _turn = turn.ok_or_else(|| Failure::NotSent(none_free()))?;
        let mut link = self.check_out(budget).map_err(Failure::NotSent)?;
        if !self.trusts(&mut link, budget) {
            self.fill(&mut link, budget).map_err(Failure::NotSent)?;
        }
        if budget.remaining() < self.operation_timeout / SHARE_FOR_AN_ANSWER {
            self.give_back(link);
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        let result = self.attempt(&mut link, operation, &work);
        // A connection that did not answer in time has spent the budget.
        let failed = |failure: &Failure| match failure {
            Failure::Connection(error) => !error.is_timeout(),
            failure => failure.is_demotion(),
        };
        let result = if result.as_ref().is_err_and(failed)
            // The first failure says more than one to connect.
            && self.fill(&mut link, budget).is_ok()
        {
            self.attempt(&mut link, operation, &work)
        } else {
            result
        };
        self.give_back(link);
        result
    }

    fn attempt<T>(
        &self,
        link: &mut Link,
        operation: &mut Operation<'_>,
        work: &impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        let identity = link.identity().cloned();
        let Some(mut session) = link.session(operation.budget) else {
            return Err(Failure::NotSent(StoreError::transient("no connection")));
        };
        session.identity = identity;
        session.repeated = operation.unanswered;
        session.asking = operation.asking;
        let result = self.unanswered.during(operation.brings, &mut session, work);
        let fails = |failure: &Failure| {
            failure.is_demotion() || (self.route.moves() && failure.lacks_replicas())
        };
        match &result {
            Err(Failure::Connection(error)) => {
                operation.unanswered = true;
                link.empty();
                if error.is_timeout() {
                    self.trust.lock().unanswered = Some(begun);
                } else {
                    self.distrust();
                }
            }
            Err(failure) if fails(failure) => {
                link.empty();
                self.distrust();
            }
            // Where nothing was sent there is nothing to be seen.
            Err(Failure::NotSent(_)) => {}
            Ok(_) | Err(_) => link.has_answered(),
        }
        result
    }

    /// Gives up all connections that there are, those in use once they are given back.
    pub(crate) fn distrust(&self) {
        self.trust.lock().failed = Some(Instant::now());
    }

    fn check_out(&self, budget: Budget) -> Result<Link, StoreError> {
        match &self.pool {
            AnyPool::Own(idle) => Ok(Link::Own(idle.lock().pop())),
            AnyPool::Given(_, pool) => {
                // The pool adds it to the clock.
                let patience = share(budget, SHARE_FOR_THE_TURN)
                    .remaining()
                    .min(LONGEST_LIFE);
                match pool.get_timeout(patience) {
                    Ok(pooled) => Ok(Link::Given(pooled)),
                    Err(error) => Err(none_free().with_source(error)),
                }
            }
        }
    }

    /// Whether a connection that was checked out can be used as it is.
    fn trusts(&self, link: &mut Link, budget: Budget) -> bool {
        if link.introduce(&self.route, budget).is_err() {
            return false;
        }
        let trust = *self.trust.lock();
        let (Some(known), false) = (link.known().cloned(), link.has_failed()) else {
            return false;
        };
        let (idle, age) = (known.answered.elapsed(), known.since.elapsed());
        let is_ours = matches!(link, Link::Own(_));
        if trust.failed.is_some_and(|failed| known.since <= failed)
            || is_ours && (idle > LONGEST_IDLE || age > LONGEST_LIFE)
        {
            return false;
        }
        if idle > LOOKED_AT_AFTER && link.is_over() {
            self.distrust();
            return false;
        }
        let in_doubt = trust.unanswered.is_some_and(|since| known.answered < since);
        (!in_doubt && idle <= PROVEN_AFTER) || self.proves(link, budget)
    }

    /// Asks the server whether it is still there. If it does not say so soon, no older connection is any better.
    fn proves(&self, link: &mut Link, budget: Budget) -> bool {
        let part = share(budget, SHARE_FOR_PROOF);
        let Some(mut session) = link.session(part) else {
            return false;
        };
        match session.call::<Value>(&cmd("PING")) {
            Ok(_) | Err(Failure::Answer(_)) => {
                link.has_answered();
                true
            }
            Err(_) => {
                self.distrust();
                false
            }
        }
    }

    /// Puts a new connection in the place of what is there.
    fn fill(&self, link: &mut Link, budget: Budget) -> Result<(), StoreError> {
        link.empty();
        match (&mut *link, &self.pool) {
            (Link::Given(pooled), AnyPool::Given(client, _)) => {
                // As the pool itself would open it.
                **pooled = client
                    .get_connection_with_timeout(budget.remaining().min(LONGEST_LIFE))
                    .map_err(|error| classify("connecting", error))?;
                let extensions = PooledConnection::extensions_mut(pooled);
                extensions.remove::<Failed>();
                extensions.remove::<Known>();
                // What it does not tell is not known.
                let _ = link.introduce(&self.route, budget);
            }
            (Link::Own(place), _) => *place = Some(self.route.dial(budget)?),
            (Link::Given(_), AnyPool::Own(_)) => {}
        }
        Ok(())
    }

    fn give_back(&self, link: Link) {
        match (link, &self.pool) {
            (Link::Own(Some(live)), AnyPool::Own(idle)) => {
                let mut idle = idle.lock();
                idle.push(live);
                // More than are needed now are closed one by one.
                let is_old = |live: &Live| live.known.answered.elapsed() > LONGEST_IDLE;
                let old = idle.first().is_some_and(is_old).then(|| idle.remove(0));
                drop(idle);
                drop(old);
            }
            (mut link, _) => link.reset(),
        }
    }
}

fn none_free() -> StoreError {
    StoreError::transient("no pooled connection came free in time (see `pool_size`)")
}

/// A connection that is checked out, or the place of one.
enum Link {
    Own(Option<Live>),
    /// The pool always has a connection in the place. What is known of it stands in the extensions.
    Given(PooledConnection<Client>),
}

/// Stands in the extensions of a connection of the user's pool that failed: a late answer may be waiting in
/// it.
struct Failed;

impl Link {
    /// Learns by what the server knows a connection that the user's pool opened.
    fn introduce(&mut self, route: &Route, budget: Budget) -> Result<(), Failure> {
        if let (Self::Given(pooled), Route::Direct(server)) = (self, route)
            && PooledConnection::extensions(pooled)
                .get::<Known>()
                .is_none()
        {
            let since = Instant::now();
            let mut session = Session::new(&mut **pooled, budget);
            session.shared = true;
            let identity = Identity::ask(&mut session, server)?;
            PooledConnection::extensions_mut(pooled).insert(Known::new(since, identity));
        }
        Ok(())
    }

    fn empty(&mut self) {
        match self {
            Self::Own(place) => *place = None,
            Self::Given(pooled) => {
                PooledConnection::extensions_mut(pooled).insert(Failed);
            }
        }
    }

    fn has_failed(&self) -> bool {
        match self {
            Self::Own(place) => place.is_none(),
            Self::Given(pooled) => PooledConnection::extensions(pooled)
                .get::<Failed>()
                .is_some(),
        }
    }

    /// Whether the other end has hung up, as far as is known here.
    fn is_over(&self) -> bool {
        match self {
            Self::Own(place) => place.as_ref().is_none_or(|live| live.connection.is_over()),
            Self::Given(pooled) => !redis::ConnectionLike::is_open(&**pooled),
        }
    }

    fn session(&mut self, budget: Budget) -> Option<Session<'_>> {
        match self {
            Self::Own(place) => Some(Session::of(place.as_mut()?, budget)),
            Self::Given(pooled) => {
                let mut session = Session::new(&mut **pooled, budget);
                session.shared = true;
                Some(session)
            }
        }
    }

    fn has_answered(&mut self) {
        let known = match self {
            Self::Own(place) => place.as_mut().map(|live| &mut live.known),
            Self::Given(pooled) => PooledConnection::extensions_mut(pooled).get_mut(),
        };
        if let Some(known) = known {
            known.answered = Instant::now();
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
    fn reset(&mut self) {
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
