//! Local time.

use std::sync::Arc;
use std::time::Instant;

/// The local clock by which leases are judged.
///
/// It is monotonic and counts on while the process or the machine is suspended. Replaced in tests only
/// (`ManualClock` of `guard-memory`); waits and timeouts always run in real time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Instant;

    /// Registers a listener to be called after this clock was set forward by hand; it is forgotten once
    /// it answers `false`. A clock that nobody can set has no use for it.
    fn on_jump(&self, listener: JumpListener) {
        drop(listener);
    }
}

/// Called after a clock jumped; answers whether it still wants to be called.
pub type JumpListener = Arc<dyn Fn() -> bool + Send + Sync>;

/// The operating system's monotonic clock, with the time that the machine was suspended.
///
/// On Linux and Android that is `CLOCK_BOOTTIME`, on Apple's systems `CLOCK_MONOTONIC`, where [`Instant`] itself
/// stands still meanwhile. On Windows [`Instant`] counts on by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        system::now()
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod system {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use rustix::time::{ClockId, clock_gettime};

    #[cfg(not(target_vendor = "apple"))]
    const COUNTS_SUSPENSION: ClockId = ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const COUNTS_SUSPENSION: ClockId = ClockId::Monotonic;

    /// One moment by both clocks: times of the other one are told as if [`Instant`] had counted on since then.
    static SAME: LazyLock<(Instant, Duration)> = LazyLock::new(|| (Instant::now(), since_boot()));

    pub(super) fn now() -> Instant {
        let (instant, same) = *SAME;
        let since = since_boot().saturating_sub(same);
        instant.checked_add(since).unwrap_or(instant)
    }

    fn since_boot() -> Duration {
        let time = clock_gettime(COUNTS_SUSPENSION);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Duration::new(seconds, nanos)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod system {
    use std::time::Instant;

    pub(super) fn now() -> Instant {
        Instant::now()
    }
}
