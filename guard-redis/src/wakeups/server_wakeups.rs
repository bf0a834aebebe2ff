//! Wake-ups: the server tells when a slot changes, whoever changes it.
//!
//! The method is Redis's client-side caching in its two-connection form. Keys read on the *tracked*
//! connection are remembered by the server; when one changes, a message goes to the *invalidation* connection,
//! which a thread reads. So a look on the tracked connection both registers the interest and closes the gap
//! between looking and sleeping, in one round trip. A registration fires once.
//!
//! Messages are hints. Whatever goes wrong here, waiters still look every few seconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, LeaseToken, Registration, SlotName, StoreError, Subscriber, Watch};

use crate::connection::dial::share;
use crate::connection::exchange::Exchange;
use crate::connection::route::Route;
use crate::connection::unanswered::Unanswered;
use crate::protocol::failure::Failure;
use crate::wakeups::invalidations::Invalidations;
use crate::wakeups::listener;
use crate::wakeups::subscribers::{Place, Subscribers};
use crate::wakeups::worker::Worker;

const THREAD_NAME: &str = "guard-wakeups";

/// How a waiting thread learns that a slot has come free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakeups {
    /// The server tells when a key changes, whoever changes it (`CLIENT TRACKING`): the waiter enters within
    /// two or three round trips of the release, and waiting costs next to nothing. Takes two connections and a
    /// thread, from the first wait on. Falls back to polling where the server refuses it.
    #[default]
    Tracking,
    /// The waiter looks at `retry_interval`.
    Polling,
}

/// What all servers of a store have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) wakeups: Wakeups,
    pub(crate) operation_timeout: Duration,
    /// How long the end of a thread is waited for.
    pub(crate) grace: Duration,
    pub(crate) unanswered: Arc<Unanswered>,
    /// Who waits for which slot, whichever server has it.
    pub(crate) subscribers: Arc<Subscribers>,
}

/// The wake-ups from one server. The thread and the connections begin with the first wait.
pub(crate) struct ServerWakeups {
    invalidations: Arc<Invalidations>,
    unanswered: Arc<Unanswered>,
    worker: Worker,
}

impl ServerWakeups {
    pub(crate) fn new(route: &dyn Route, common: &Common) -> Self {
        let worker = Worker::new(THREAD_NAME, common.grace);
        let invalidations = Invalidations::new(
            route.within(worker.sockets()),
            common.operation_timeout,
            Arc::clone(&common.subscribers),
            common.wakeups == Wakeups::Polling,
        );
        Self {
            invalidations: Arc::new(invalidations),
            unanswered: Arc::clone(&common.unanswered),
            worker,
        }
    }

    /// Registers an interest in a slot; `None` where the server does not tell.
    pub(crate) fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.is_on().then(|| {
            Watch::new(Watching {
                _place: self.invalidations.subscribers.add(slot, subscriber),
                invalidations: Arc::clone(&self.invalidations),
            })
        })
    }

    /// Whether there is or will be something to be had. Starts the thread if need be.
    pub(crate) fn is_on(&self) -> bool {
        if self.invalidations.are_off() {
            return false;
        }
        let started = self.start();
        if let Err(error) = &started {
            self.invalidations
                .switch_off(&format!("no thread for wake-ups: {error}"));
        }
        started.is_ok()
    }

    /// Whether changes are told now.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_healthy(&self) -> bool {
        self.invalidations.are_told()
    }

    /// Asks the thread to end, and does not wait for it.
    #[cfg(any(feature = "sentinel", feature = "cluster"))]
    pub(crate) fn stop(&self) {
        self.worker.stop();
    }

    /// Gives the line up, whose server has no slots any more; its thread ends by itself.
    #[cfg(feature = "cluster")]
    pub(crate) fn retire(&self) {
        self.worker.let_go();
    }

    /// Gives up what may lead to a server that is no master any more. Who waits looks, and the thread connects
    /// again.
    #[cfg(feature = "sentinel")]
    pub(crate) fn distrust(&self) {
        self.invalidations.down();
    }

    /// Works on the tracked connection, so that the server tells of the next change of what is read; `None` if there is
    /// none, or it is in use for long: there is the pool. `brings` is the token that the work may put into a slot.
    ///
    /// Who watches `slot` then looks again, since a look by the pool registers nothing.
    pub(crate) fn look<T>(
        &self,
        slot: &SlotName,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let looked = self.look_soon(brings, budget, work);
        // One that is gone has a successor, which lets everybody look.
        if looked.is_none() && !self.invalidations.tracked.is_down() {
            self.invalidations.subscribers.wake(slot);
        }
        judge(looked?)
    }

    /// The same, but if it is in use for long nobody looks again: the next renewal registers.
    pub(crate) fn renew<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        judge(self.look_soon(None, budget, work)?)
    }

    fn look_soon<T>(
        &self,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let work = |exchange: &mut Exchange<'_>| self.unanswered.during(brings, exchange, work);
        self.invalidations.tracked.use_soon(budget, work)
    }

    /// Changes slots on the tracked connection if it is idle, so that the server does not tell of the change
    /// those who made it; `None` if there is none or it is in use. It gets half of the time, like a look.
    pub(crate) fn change<T>(
        &self,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let work = |exchange: &mut Exchange<'_>| self.unanswered.during(brings, exchange, work);
        let tracked = &self.invalidations.tracked;
        judge(tracked.use_if_idle(share(budget, 2), work)?)
    }

    /// Whether a look at `slot` would be told of its next change.
    pub(crate) fn is_watched(&self, slot: &SlotName) -> bool {
        self.invalidations.are_told() && self.invalidations.subscribers.contains(slot)
    }

    fn start(&self) -> io::Result<()> {
        let invalidations = Arc::clone(&self.invalidations);
        self.worker
            .start(move |stop| listener::work(&invalidations, stop))
    }
}

/// A waiter's watch.
struct Watching {
    _place: Place,
    invalidations: Arc<Invalidations>,
}

impl Registration for Watching {
    fn is_healthy(&self) -> bool {
        self.invalidations.are_told()
    }
}

/// What work on the tracked connection came to; `None` if the pool does better.
fn judge<T>(result: Result<T, Failure>) -> Option<Result<T, StoreError>> {
    match result {
        Ok(value) => Some(Ok(value)),
        // The pool finds the right server at once.
        Err(failure) if failure.is_misdirection() => None,
        Err(failure) => Some(Err(failure.into_store_error("look"))),
    }
}
