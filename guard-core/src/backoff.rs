//! Pauses between attempts: jitter, and backoff while a store fails.

use std::time::Duration;

use rand::Rng;

/// The first pause after a failure.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause between attempts while a store fails.
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double from 20 ms to 1 s, each jittered by ±10 %.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST);
        self.failures += 1;
        jittered(pause)
    }
}

/// `pause` ±10 %, so that processes that started together do not go on in step.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let tenth = pause / 10;
    let factor = rand::rng().random_range(0..=200_u32);
    (pause - tenth).saturating_add(tenth.saturating_mul(factor) / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth_and_overflows_nowhere() {
        let pause = Duration::from_millis(500);
        for _ in 0..1_000 {
            let jittered = jittered(pause);
            assert!(jittered >= pause * 9 / 10 && jittered <= pause * 11 / 10);
        }
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
