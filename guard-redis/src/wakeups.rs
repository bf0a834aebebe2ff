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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guard_core::{
    Budget, LOG_TARGET, LeaseToken, Registration, SlotName, StoreError, Subscriber, Watch,
};

use crate::builder::Wakeups;
use crate::dial::share;
use crate::failure::Failure;
use crate::interests::{Interest, Interests};
use crate::listener;
use crate::route::Route;
use crate::session::Session;
use crate::tracked::Tracked;
use crate::unanswered::Unanswered;
use crate::worker::Worker;

const THREAD_NAME: &str = "guard-wakeups";

/// What all lines of a store have in common.
#[derive(Clone)]
pub(crate) struct LineSettings {
    pub(crate) wakeups: Wakeups,
    pub(crate) operation_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) unanswered: Arc<Unanswered>,
    /// Who waits for which slot, whichever server has it.
    pub(crate) interests: Arc<Interests>,
}

/// The wake-ups from one server. The thread and the connections begin with the first wait.
pub(crate) struct WakeupLine {
    line: Arc<Line>,
    worker: Worker,
}

/// What the waiters and the listening thread share.
pub(crate) struct Line {
    pub(crate) route: Route,
    pub(crate) operation_timeout: Duration,
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) interests: Arc<Interests>,
    unanswered: Arc<Unanswered>,
    /// Whether changes are told now.
    healthy: AtomicBool,
    /// Whether there is nothing to be had: switched off, refused by the server for now, or no thread.
    off: AtomicBool,
}

impl WakeupLine {
    pub(crate) fn new(route: &Route, settings: LineSettings) -> Self {
        let LineSettings {
            wakeups,
            operation_timeout,
            grace,
            unanswered,
            interests,
        } = settings;
        let worker = Worker::new(THREAD_NAME, grace);
        Self {
            line: Arc::new(Line {
                route: route.within(worker.sockets()),
                operation_timeout,
                tracked: Arc::default(),
                interests,
                unanswered,
                healthy: AtomicBool::new(false),
                off: AtomicBool::new(wakeups == Wakeups::Polling),
            }),
            worker,
        }
    }

    /// Registers an interest in a slot; `None` where the server does not tell.
    pub(crate) fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        self.is_on().then(|| {
            Watch::new(Watching {
                _interest: self.line.interests.add(slot, subscriber),
                line: Arc::clone(&self.line),
            })
        })
    }

    /// Whether there is or will be something to be had. Starts the thread if need be.
    pub(crate) fn is_on(&self) -> bool {
        if self.line.off.load(Ordering::Acquire) {
            return false;
        }
        let started = self.start();
        if let Err(error) = &started {
            self.line
                .switch_off(&format!("no thread for wake-ups: {error}"));
        }
        started.is_ok()
    }

    /// Whether changes are told now.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_healthy(&self) -> bool {
        self.line.is_healthy()
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
        self.line.down();
    }

    /// Works on the tracked connection: see [`Line::look`]. If that is in use for long, who watches `slot` looks
    /// again, since a look by the pool registers nothing.
    pub(crate) fn look<T>(
        &self,
        slot: &SlotName,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let look_again = || self.line.interests.wake(slot);
        self.line.look(brings, budget, work, look_again)
    }

    /// The same, but if it is in use for long nobody looks again: the next renewal registers.
    pub(crate) fn renew<T>(
        &self,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        self.line.look(None, budget, work, || ())
    }

    /// Changes slots on the tracked connection if it is idle, so that the server does not tell of the change
    /// those who made it; `None` if there is none or it is in use. It gets half of the time, like a look.
    pub(crate) fn change<T>(
        &self,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let line = &self.line;
        let work = |session: &mut Session<'_>| line.unanswered.during(brings, session, work);
        let result = line.tracked.use_if_idle(share(budget, 2), work)?;
        judge(result)
    }

    /// Whether a look at `slot` would be told of its next change.
    pub(crate) fn is_watched(&self, slot: &SlotName) -> bool {
        self.line.is_healthy() && self.line.interests.contains(slot)
    }

    fn start(&self) -> io::Result<()> {
        let line = Arc::clone(&self.line);
        self.worker.start(move |stop| listener::work(&line, stop))
    }
}

impl Line {
    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Acquire)
    }

    /// Works on the tracked connection, so that the server tells of the next change of what is read; `None`
    /// if there is none, or it is in use for long: there is the pool. `brings` is the token that the work may
    /// put into a slot.
    fn look<T>(
        &self,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
        when_in_use: impl FnOnce(),
    ) -> Option<Result<T, StoreError>> {
        let work = |session: &mut Session<'_>| self.unanswered.during(brings, session, work);
        let Some(result) = self.tracked.use_soon(budget, work) else {
            // One that is gone has a successor, which lets everybody look.
            if !self.tracked.is_down() {
                when_in_use();
            }
            return None;
        };
        judge(result)
    }

    /// Wake-ups work from now on. Who waited without them looks, and so registers.
    pub(crate) fn up(&self) {
        self.off.store(false, Ordering::Release);
        self.healthy.store(true, Ordering::Release);
        self.interests.wake_all();
    }

    /// Wake-ups do not work any more. Who relied on them looks.
    pub(crate) fn down(&self) {
        let was_healthy = self.healthy.swap(false, Ordering::AcqRel);
        self.tracked.take_down();
        if was_healthy {
            self.interests.wake_all();
        }
    }

    /// There will be no wake-ups. Who waits for them begins to poll.
    pub(crate) fn switch_off(&self, why: &str) {
        if !self.off.swap(true, Ordering::AcqRel) {
            log::warn!(target: LOG_TARGET, "waiting polls, there are no wake-ups: {why}");
        }
        self.interests.wake_all();
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

/// A waiter's watch.
struct Watching {
    _interest: Interest,
    line: Arc<Line>,
}

impl Registration for Watching {
    fn is_healthy(&self) -> bool {
        self.line.is_healthy()
    }
}
