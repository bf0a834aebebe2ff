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
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use guard_core::{
    Budget, LOG_TARGET, LeaseToken, Registration, SlotName, StoreError, Waker, Watch,
};
use parking_lot::{Condvar, Mutex};

use crate::builder::Wakeups;
use crate::interests::{Interest, Interests};
use crate::listener;
use crate::route::Route;
use crate::session::{Failure, Session};
use crate::tracked::Tracked;
use crate::unanswered::Unanswered;

const THREAD_NAME: &str = "guard-wakeups";

/// The wake-ups of a store. The thread and the connections begin with the first wait.
pub(crate) struct WakeupLine {
    line: Arc<Line>,
    grace: Duration,
    unanswered: Arc<Unanswered>,
    /// Protects the thread and its end, whose sender the thread drops when it is over; `None` before the
    /// start.
    thread: Mutex<Option<(ThreadId, Receiver<()>)>>,
}

/// What the waiters and the listening thread share.
pub(crate) struct Line {
    pub(crate) route: Route,
    pub(crate) operation_timeout: Duration,
    pub(crate) tracked: Tracked,
    pub(crate) interests: Arc<Interests>,
    /// Whether changes are told now.
    healthy: AtomicBool,
    /// Whether there is nothing to be had: switched off, refused by the server, or no thread.
    off: AtomicBool,
    /// Protects whether the thread is asked to end; it sleeps on it between attempts to connect.
    stop: Mutex<bool>,
    stopping: Condvar,
}

impl WakeupLine {
    pub(crate) fn new(
        wakeups: Wakeups,
        route: Route,
        operation_timeout: Duration,
        grace: Duration,
        unanswered: Arc<Unanswered>,
    ) -> Self {
        Self {
            line: Arc::new(Line {
                route,
                operation_timeout,
                tracked: Tracked::default(),
                interests: Arc::default(),
                healthy: AtomicBool::new(false),
                off: AtomicBool::new(wakeups == Wakeups::Polling),
                stop: Mutex::new(false),
                stopping: Condvar::new(),
            }),
            grace,
            unanswered,
            thread: Mutex::new(None),
        }
    }

    /// Registers an interest in a slot; `None` where the server does not tell.
    pub(crate) fn watch(&self, slot: &SlotName, waker: &Waker) -> Option<Watch> {
        if self.line.off.load(Ordering::Acquire) {
            return None;
        }
        if let Err(error) = self.start() {
            self.line
                .switch_off(&format!("no thread for wake-ups: {error}"));
            return None;
        }
        Some(Watch::new(Watching {
            _interest: self.line.interests.add(slot, waker),
            line: Arc::clone(&self.line),
        }))
    }

    /// Works on the tracked connection, so that the server tells of the next change of what is read; `None`
    /// if there is none. It gets half of the time that is left: should this one connection hang, there is
    /// the pool for the rest. `brings` is the token that the work may put into a slot.
    pub(crate) fn look<T>(
        &self,
        brings: Option<&LeaseToken>,
        budget: Budget,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let half = Budget::new(budget.remaining() / 2);
        let work = |session: &mut Session<'_>| {
            session.may_be_demoted = self.line.route.moves();
            work(session)
        };
        let (failure, identity) = match self.line.tracked.use_within(half, work)? {
            Ok(value) => return Some(Ok(value)),
            // The pool finds the new master at once, the thread a little later.
            Err((failure, _)) if failure.is_demotion() => return None,
            Err(failed) => failed,
        };
        if let (Failure::Connection(_), Some(token)) = (&failure, brings) {
            self.unanswered.add(token, identity);
        }
        Some(Err(failure.into_store_error("look")))
    }

    /// Whether a look at `slot` would be told of its next change.
    pub(crate) fn is_watched(&self, slot: &SlotName) -> bool {
        self.line.is_healthy() && self.line.interests.contains(slot)
    }

    fn start(&self) -> io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (alive, over) = mpsc::channel();
            let line = Arc::clone(&self.line);
            let handle = thread::Builder::new()
                .name(THREAD_NAME.to_owned())
                .spawn(move || {
                    let _alive = alive;
                    listener::work(&line);
                })?;
            *thread = Some((handle.thread().id(), over));
        }
        Ok(())
    }
}

impl Drop for WakeupLine {
    fn drop(&mut self) {
        *self.line.stop.lock() = true;
        self.line.stopping.notify_all();
        // The last handle may go on the thread itself, which must not wait for its own end.
        if let Some((id, over)) = self.thread.get_mut().take()
            && id != thread::current().id()
        {
            // It reads for a tenth of a second at a time; it takes longer only if the server hangs.
            if over.recv_timeout(self.grace) == Err(RecvTimeoutError::Timeout) {
                log::debug!(target: LOG_TARGET, "the thread for wake-ups will end later");
            }
        }
    }
}

impl Line {
    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Acquire)
    }

    /// Wake-ups work from now on. Who waited without them looks, and so registers.
    pub(crate) fn up(&self) {
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

    pub(crate) fn stopped(&self) -> bool {
        *self.stop.lock()
    }

    /// Sleeps, unless the line is stopped.
    pub(crate) fn sleep(&self, time: Duration) {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopping.wait_for(&mut stop, time);
        }
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
