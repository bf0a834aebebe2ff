//! How long a lease lasts, and how long one store operation may take.

use std::time::{Duration, Instant};

use crate::base::clock::{Clock, SystemClock};
use crate::base::error::ConfigError;

/// The TTL of a lease: whole milliseconds, at least one.
///
/// What the holder counts on is a little shorter than what the store keeps, so that the holder stops
/// believing before the store does, small clock drift included: see [`LeaseTtl::validity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseTtl {
    ttl: Duration,
    validity: Duration,
}

impl LeaseTtl {
    /// Unless another one is set: 30 minutes.
    pub const DEFAULT: Duration = Duration::from_secs(30 * 60);
    /// The shortest TTL.
    pub const MIN: Duration = Duration::from_millis(1);

    /// Cuts `ttl` to whole milliseconds and checks it against `max`, the most that the store can hold.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] that names the setting `lease_ttl` and the limit.
    pub fn new(ttl: Duration, max: Duration) -> Result<Self, ConfigError> {
        if ttl < Self::MIN {
            let limit = Self::MIN;
            return Err(ConfigError::setting(
                "lease_ttl",
                format!("{ttl:?} is too short, the minimum is {limit:?}"),
            ));
        }
        if ttl > max {
            return Err(ConfigError::setting(
                "lease_ttl",
                format!("{ttl:?} is too long, the store can hold at most {max:?}"),
            ));
        }
        let beyond_millis = ttl.subsec_nanos() % 1_000_000;
        let ttl = ttl - Duration::from_nanos(beyond_millis.into());
        let margin = (ttl / 1000).max(Duration::from_millis(1));
        Ok(Self {
            ttl,
            validity: ttl.saturating_sub(margin).max(ttl / 2),
        })
    }

    /// The TTL.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.ttl
    }

    /// The TTL in milliseconds.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a holder may count on its lease: the TTL less a thousandth of it, at least 1 ms less,
    /// but never less than half of it.
    #[must_use]
    pub const fn validity(self) -> Duration {
        self.validity
    }

    /// Until when a holder may count on a lease that an operation brings or renews, by the guard's clock.
    pub(crate) fn deadline(self, operation: Budget) -> Instant {
        after(operation.sent(), self.validity)
    }
}

/// The time that is left for one store operation with everything in it: taking a connection,
/// connecting, sending, every reply, and a repetition. And the one date of that operation: a lease that it
/// brings or renews counts from [`sent`](Self::sent), for its holder and for a store that keeps time by the
/// guard's clock.
///
/// A store asks for [`remaining`](Self::remaining) before each step that can block.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// By the guard's clock.
    sent: Instant,
    /// In real time, like what is left.
    started: Instant,
    time: Duration,
}

impl Budget {
    /// A budget of `time` from now on, for an operation that is sent now by the [`SystemClock`].
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self::by(&SystemClock, time)
    }

    /// A budget of `time` from now on, for an operation that is sent now by `clock`.
    #[must_use]
    pub fn by(clock: &dyn Clock, time: Duration) -> Self {
        Self {
            sent: clock.now(),
            started: Instant::now(),
            time,
        }
    }

    /// When the operation was sent, by the guard's clock: read once, before anything of it was done.
    #[must_use]
    pub const fn sent(&self) -> Instant {
        self.sent
    }

    /// The same in real time.
    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// What is left; zero once it is spent.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.time.saturating_sub(self.started.elapsed())
    }

    /// When it is spent.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        after(self.started, self.time)
    }
}

/// `start + time`; a sum that the clock cannot hold becomes a moment a century away.
pub(crate) fn after(start: Instant, time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    start
        .checked_add(time)
        .or_else(|| start.checked_add(CENTURY))
        .unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(1 << 40);

    #[test]
    fn a_ttl_is_cut_to_whole_milliseconds() {
        let ttl = LeaseTtl::new(Duration::from_micros(1_999), MAX).unwrap();
        assert_eq!(ttl.get(), Duration::from_millis(1));
        assert_eq!(ttl.as_millis(), 1);
    }

    #[test]
    fn a_ttl_outside_its_limits_is_refused_with_the_limit() {
        for (ttl, limit) in [
            (Duration::ZERO, "1ms"),
            (Duration::from_micros(999), "1ms"),
            (Duration::MAX, "1099511627776s"),
            (MAX + Duration::from_nanos(1), "1099511627776s"),
        ] {
            let text = LeaseTtl::new(ttl, MAX).unwrap_err().to_string();
            assert!(text.contains("lease_ttl") && text.contains(limit), "{text}");
        }
        assert_eq!(LeaseTtl::new(MAX, MAX).unwrap().get(), MAX);
    }

    #[test]
    fn the_holder_stops_believing_before_the_store_does() {
        let validity = |millis| {
            let ttl = LeaseTtl::new(Duration::from_millis(millis), MAX).unwrap();
            ttl.validity()
        };
        assert_eq!(validity(1), Duration::from_micros(500));
        assert_eq!(validity(2), Duration::from_millis(1));
        assert_eq!(validity(20), Duration::from_millis(19));
        assert_eq!(validity(30_000), Duration::from_millis(29_970));
    }

    #[test]
    fn no_duration_overflows_the_clock() {
        let now = Instant::now();
        assert!(after(now, Duration::MAX) > now + Duration::from_secs(1));
        assert!(Budget::new(Duration::MAX).remaining() > Duration::from_secs(1));
        assert_eq!(Budget::new(Duration::ZERO).remaining(), Duration::ZERO);
    }
}
