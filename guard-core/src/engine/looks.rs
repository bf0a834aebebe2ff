//! How long between two looks of an entry that waits.

use std::time::{Duration, Instant};

use crate::base::time::after;
use crate::engine::backoff::jittered;

/// How often at least a watched slot is looked at: the net under wake-ups that did not come.
const WATCHED_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two looks that a wake-up caused and that found the slot held. Also how long
/// an entry that expects to be handed the slot waits before it looks.
pub(crate) const LOOK_SPACING: Duration = Duration::from_millis(20);
/// Two looks that tell a holder's expiry this much apart saw the same lease, without a renewal in between.
const SAME_EXPIRY: Duration = Duration::from_millis(5);
/// Added to the holder's remaining TTL, so that the look comes after the expiry and not just before it.
const PAST_EXPIRY: Duration = Duration::from_millis(1);

/// How long to pause after a look that found the slot held for `remaining`, unless a wake-up comes.
pub(crate) fn pause(
    retry_interval: Duration,
    watched: bool,
    remaining: Option<Duration>,
) -> Duration {
    let interval = if watched {
        retry_interval.max(WATCHED_INTERVAL)
    } else {
        retry_interval
    };
    let expiry = remaining.map_or(Duration::MAX, |time| time.saturating_add(PAST_EXPIRY));
    jittered(interval).min(expiry)
}

/// Looks that a wake-up caused and that found the slot held.
#[derive(Default)]
pub(crate) struct InVain {
    last: Option<Instant>,
    /// When the holder's lease ends, as the last look told it.
    expiry: Option<Instant>,
    /// How many of them in a row found the slot as it was before: nobody has changed it.
    unchanged: u32,
}

impl InVain {
    /// Notes a look that found the slot held for `remaining`.
    pub(crate) fn found_held(&mut self, woken: bool, remaining: Option<Duration>) {
        let now = Instant::now();
        let expiry = remaining.and_then(|remaining| now.checked_add(remaining));
        let apart = match (self.expiry, expiry) {
            (Some(before), Some(expiry)) => expiry.saturating_duration_since(before),
            (None, None) => Duration::ZERO,
            _ => Duration::MAX,
        };
        self.unchanged = if woken && apart < SAME_EXPIRY {
            self.unchanged.saturating_add(1)
        } else {
            0
        };
        self.expiry = expiry;
        self.last = woken.then_some(now);
    }

    /// The earliest time of a look that the next wake-up causes: later and later, up to the retry
    /// interval, while wake-ups come without a change. A holder may change its slot often: this bounds what that costs
    /// the store.
    pub(crate) fn next_look(&self, retry_interval: Duration) -> Option<Instant> {
        let spacing = LOOK_SPACING.saturating_mul(1 << self.unchanged.saturating_sub(1).min(10));
        let longest = retry_interval.max(LOOK_SPACING);
        self.last.map(|last| after(last, spacing.min(longest)))
    }
}
