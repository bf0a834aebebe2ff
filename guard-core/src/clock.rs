//! Local time.

use std::sync::Arc;
use std::time::Instant;

/// The local clock by which leases are judged.
///
/// It is monotonic and counts on while the process is suspended, where the operating system's
/// monotonic clock does. Replaced in tests only (`ManualClock` of `guard-memory`); waits and timeouts
/// always run in real time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Instant;

    /// The time now, where the operating system's monotonic clock has just been read as `real`. The default
    /// reads this clock.
    fn given(&self, real: Instant) -> Instant {
        let _ = real;
        self.now()
    }

    /// Registers a listener to be called after this clock was set forward by hand; it is forgotten once
    /// it answers `false`. A clock that nobody can set has no use for it.
    fn on_jump(&self, listener: JumpListener) {
        drop(listener);
    }
}

/// Called after a clock jumped; answers whether it still wants to be called.
pub type JumpListener = Arc<dyn Fn() -> bool + Send + Sync>;

/// The operating system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn given(&self, real: Instant) -> Instant {
        real
    }
}
