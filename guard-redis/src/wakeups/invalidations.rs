//! Whether a server tells of changed slots, and to whom: what the waiters and the listening thread share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guard_core::LOG_TARGET;

use crate::connection::route::Route;
use crate::wakeups::subscribers::Subscribers;
use crate::wakeups::tracked::Tracked;

/// What the waiters and the listening thread share.
pub(crate) struct Invalidations {
    pub(crate) route: Arc<dyn Route>,
    pub(crate) operation_timeout: Duration,
    pub(crate) tracked: Tracked,
    pub(crate) subscribers: Arc<Subscribers>,
    /// Whether changes are told now.
    healthy: AtomicBool,
    /// Whether there is nothing to be had: switched off, refused by the server for now, or no thread.
    off: AtomicBool,
}

impl Invalidations {
    pub(crate) fn new(
        route: Arc<dyn Route>,
        operation_timeout: Duration,
        subscribers: Arc<Subscribers>,
        off: bool,
    ) -> Self {
        Self {
            route,
            operation_timeout,
            tracked: Tracked::default(),
            subscribers,
            healthy: AtomicBool::new(false),
            off: AtomicBool::new(off),
        }
    }

    /// Whether there is nothing to be had.
    pub(crate) fn are_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Whether changes are told now.
    pub(crate) fn are_told(&self) -> bool {
        self.healthy.load(Ordering::Acquire)
    }

    /// Wake-ups work from now on. Who waited without them looks, and so registers.
    pub(crate) fn up(&self) {
        self.off.store(false, Ordering::Release);
        self.healthy.store(true, Ordering::Release);
        self.subscribers.wake_all();
    }

    /// Wake-ups do not work any more. Who relied on them looks.
    pub(crate) fn down(&self) {
        let was_healthy = self.healthy.swap(false, Ordering::AcqRel);
        self.tracked.take_down();
        if was_healthy {
            self.subscribers.wake_all();
        }
    }

    /// There will be no wake-ups. Who waits for them begins to poll.
    pub(crate) fn switch_off(&self, why: &str) {
        if !self.off.swap(true, Ordering::AcqRel) {
            log::warn!(target: LOG_TARGET, "waiting polls, there are no wake-ups: {why}");
        }
        self.subscribers.wake_all();
    }
}
