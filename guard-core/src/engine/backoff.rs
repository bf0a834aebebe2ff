//! Pauses between attempts: jitter, and backoff while a store fails.

use std::time::Duration;

use crate::base::error::StoreError;
use crate::base::random;

/// The first pause after a failure.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause between attempts while a store fails.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// The longest pause after an error that time alone does not mend.
const LONGEST_PERMANENT: Duration = Duration::from_secs(30);

/// Pauses that double from 20 ms to 1 s, each jittered by ±10 %.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn next_pause(&mut self) -> Duration {
        self.up_to(LONGEST)
    }

    /// The pause after `error`: up to 30 s where somebody has to mend it.
    pub(crate) fn after(&mut self, error: &StoreError) -> Duration {
        self.up_to(if error.is_transient() {
            LONGEST
        } else {
            LONGEST_PERMANENT
        })
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        jittered(pause.min(longest))
    }
}

/// `pause` ±10 %, so that processes that started together do not go on in step.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let tenth = pause / 10;
    let factor = u32::try_from(random::from_system() % 201).unwrap_or(100);
    (pause - tenth).saturating_add(tenth.saturating_mul(factor) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth_and_overflows_nowhere() {
        let pause = Duration::from_millis(500);
        let pauses: Vec<_> = (0..1_000).map(|_| jittered(pause)).collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*least >= pause * 9 / 10 && *most <= pause * 11 / 10);
        assert!(
            *least < pause * 19 / 20 && *most > pause * 21 / 20,
            "they differ"
        );
        assert!(jittered(Duration::MAX) > Duration::from_secs(1));
    }

    #[test]
    fn backoff_grows_to_a_second_and_no_further() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..100).map(|_| backoff.next_pause()).collect();
        assert!(pauses[0] <= Duration::from_millis(22));
        assert!(
            pauses[99] >= Duration::from_millis(900) && pauses[99] <= Duration::from_millis(1_100)
        );
    }
}
