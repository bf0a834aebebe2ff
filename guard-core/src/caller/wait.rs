//! How long an entry waits, and what ends it early.

use std::time::{Duration, Instant};

use crate::base::time::after;
use crate::caller::interrupt::Interrupt;

/// How long an entry waits for a slot, and which interrupt ends it besides the thread's own.
///
/// ```
/// use std::time::Duration;
/// use guard_core::{Interrupt, Wait};
///
/// let stop = Interrupt::new();
/// let wait = Wait::at_most(Duration::from_secs(5)).interruptible_by(&stop);
/// # let _ = wait;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a `Wait` does nothing until it is given to `enter`"]
pub struct Wait<'a> {
    limit: Limit,
    interrupt: Option<&'a Interrupt>,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Forever,
    For(Duration),
    Until(Instant),
}

impl<'a> Wait<'a> {
    /// Waits until the slot is acquired or the wait is interrupted.
    pub const fn forever() -> Self {
        Self::new(Limit::Forever)
    }

    /// Waits at most `time`, counted from the start of the entry. Zero makes one attempt; a time too long
    /// for the clock is for ever.
    pub const fn at_most(time: Duration) -> Self {
        Self::new(Limit::For(time))
    }

    /// Waits until `deadline`. One that has passed makes one attempt.
    pub const fn until(deadline: Instant) -> Self {
        Self::new(Limit::Until(deadline))
    }

    /// Makes one attempt and does not wait.
    pub const fn not_at_all() -> Self {
        Self::new(Limit::For(Duration::ZERO))
    }

    const fn new(limit: Limit) -> Self {
        Self {
            limit,
            interrupt: None,
        }
    }

    /// Lets `interrupt` end the wait. The waiting thread's own [`Interrupt::current`] always does.
    pub const fn interruptible_by(mut self, interrupt: &'a Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// When a wait that begins at `start` ends; `None` is never.
    #[must_use]
    pub fn deadline(&self, start: Instant) -> Option<Instant> {
        match self.limit {
            Limit::Forever => None,
            Limit::For(time) => start.checked_add(time),
            Limit::Until(deadline) => Some(deadline),
        }
    }

    pub(crate) const fn interrupt(&self) -> Option<&'a Interrupt> {
        self.interrupt
    }
}

/// The earlier of a moment and an optional deadline.
pub(crate) fn earlier(moment: Instant, deadline: Option<Instant>) -> Instant {
    deadline.map_or(moment, |deadline| deadline.min(moment))
}

/// `time` from now, or `deadline` if that is earlier.
pub(crate) fn pause_until(time: Duration, deadline: Option<Instant>) -> Instant {
    earlier(after(Instant::now(), time), deadline)
}
