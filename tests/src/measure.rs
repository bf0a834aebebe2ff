//! Times of many rounds, and what is typical of them.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The times that several rounds of the same took.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Notes one round.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The time within which `percent` of the rounds were over.
    ///
    /// # Panics
    ///
    /// Without any round.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let index = (sorted.len() * percent / 100).min(sorted.len() - 1);
        sorted[index]
    }

    /// The time that half of the rounds took at most: noise of the machine moves it little.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.percentile(50)
    }
}

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        Self(times.into_iter().collect())
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {:?}, p90 {:?}, p99 {:?} of {} rounds",
            self.median(),
            self.percentile(90),
            self.percentile(99),
            self.0.len()
        )
    }
}

/// Measures again when a bound is missed, three times in all: the promise is the library's, not that of a
/// machine on which others work. A bound that the library cannot keep is missed every time.
///
/// # Panics
///
/// When every measurement misses its bound.
pub fn one_of_three(mut measure: impl FnMut() -> Result<(), String>) {
    let mut missed = Vec::new();
    while missed.len() < 3 {
        match measure() {
            Ok(()) => return,
            Err(miss) => missed.push(miss),
        }
    }
    panic!("missed three times: {missed:#?}");
}

/// Keeps other measurements of this test binary off the machine while the answer lives.
pub fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
