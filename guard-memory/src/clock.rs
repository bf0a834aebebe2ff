//! A clock that only moves when it is told to.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Clock, JumpListener};
use parking_lot::Mutex;

/// A clock that stands still until it is set forward: a TTL of 30 minutes ends in a test without a sleep.
///
/// It governs leases: their TTL, expiry and loss. Waits and timeouts run in real time. Clones are handles
/// of the same clock.
///
/// ```
/// use std::time::Duration;
/// use guard_memory::ManualClock;
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.elapsed(), Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Inner>);

struct Inner {
    start: Instant,
    /// Protects how far the clock was set forward, and whom to tell. Listeners are called with it free.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    elapsed: Duration,
    listeners: Vec<JumpListener>,
}

impl ManualClock {
    /// Makes a clock that stands at this moment.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            start: Instant::now(),
            state: Mutex::default(),
        }))
    }

    /// Sets the clock forward. Whoever waits for a lease to expire is woken.
    pub fn advance(&self, time: Duration) {
        let listeners = {
            let mut state = self.0.state.lock();
            let elapsed = state.elapsed.saturating_add(time);
            // A time that the clock cannot show is not added.
            if self.0.start.checked_add(elapsed).is_some() {
                state.elapsed = elapsed;
            }
            state.listeners.clone()
        };
        let gone: Vec<_> = listeners.iter().filter(|listener| !listener()).collect();
        let mut state = self.0.state.lock();
        state
            .listeners
            .retain(|listener| !gone.iter().any(|gone| Arc::ptr_eq(gone, listener)));
    }

    /// How far the clock was set forward altogether.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.state.lock().elapsed
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.start + self.elapsed()
    }

    fn on_jump(&self, listener: JumpListener) {
        self.0.state.lock().listeners.push(listener);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("elapsed", &self.elapsed())
            .finish_non_exhaustive()
    }
}
