//! Choices that a seed repeats.

use std::env;
use std::time::{Duration, UNIX_EPOCH};

/// A small generator of our own, so that a seed means the same for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed from an environment variable, or a new one; prints it so that it can be given again.
    #[must_use]
    pub fn seed(variable: &str) -> u64 {
        let given = env::var(variable).ok().and_then(|seed| seed.parse().ok());
        let micros = || UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_micros());
        let seed = given.unwrap_or_else(|| u64::from(micros()));
        println!("{variable}={seed}");
        seed
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    /// Whole milliseconds from `least` to below `limit`.
    pub fn millis(&mut self, least: u64, limit: u64) -> Duration {
        Duration::from_millis(least + self.below(limit - least))
    }

    /// One of `choices`.
    ///
    /// # Panics
    ///
    /// Without any.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len() as u64);
        &choices[usize::try_from(index).expect("an index")]
    }
}
