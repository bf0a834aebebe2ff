//! What came of the work.

use std::fmt;
use std::time::Duration;

/// What a worker has done.
#[derive(Default)]
pub(crate) struct Tally {
    waits: Vec<Duration>,
    holds: Vec<Duration>,
}

impl Tally {
    /// Counts an update: how long it waited for its lease and how long it held it.
    pub(crate) fn add(&mut self, waited: Duration, held: Duration) {
        self.waits.push(waited);
        self.holds.push(held);
    }

    /// Adds another worker's work.
    pub(crate) fn merge(&mut self, other: Self) {
        self.waits.extend(other.waits);
        self.holds.extend(other.holds);
    }
}

/// What came of the work of this process.
pub(crate) struct Report {
    guarded: bool,
    jobs: u64,
    made: u64,
    /// How many updates of this process are in the files at the end.
    pub(crate) survived: u64,
    /// How many updates are in the files, whoever made them and when.
    pub(crate) in_files: u64,
    took: Duration,
    waits: Times,
    holds: Times,
}

impl Report {
    /// Begins a report of `jobs` jobs; nothing has been found in the files yet.
    pub(crate) fn new(guarded: bool, jobs: usize, tally: Tally, took: Duration) -> Self {
        Self {
            guarded,
            jobs: jobs as u64,
            made: tally.waits.len() as u64,
            survived: 0,
            in_files: 0,
            took,
            waits: Times::of(tally.waits),
            holds: Times::of(tally.holds),
        }
    }

    fn lost(&self) -> u64 {
        self.made.saturating_sub(self.survived)
    }

    /// Whether the guard, if there was one, kept every update.
    pub(crate) fn is_good(&self) -> bool {
        !self.guarded || self.lost() == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (made, lost) = (self.made, self.lost());
        writeln!(f, "updates made by this process: {made:>7}")?;
        writeln!(f, "of these found in the files:  {:>7}", self.survived)?;
        writeln!(f, "lost:                         {lost:>7}")?;
        writeln!(f, "total in files:               {:>7}", self.in_files)?;
        writeln!(f)?;
        writeln!(f, "waited for a lease:  {}", self.waits)?;
        writeln!(f, "held it:             {}", self.holds)?;
        writeln!(f, "all jobs took:       {:.2} s", self.took.as_secs_f64())?;
        writeln!(f)?;
        let undone = self.jobs.saturating_sub(made);
        if undone > 0 {
            writeln!(f, "{undone} of {} jobs were not done", self.jobs)?;
        }
        match (self.guarded, lost) {
            (true, 0) => writeln!(f, "verdict: with the guard, no update was lost"),
            (true, _) => writeln!(
                f,
                "verdict: FAILED, {lost} updates were lost in spite of the guard"
            ),
            (false, 0) => writeln!(f, "verdict: without a guard, no update was lost: by luck"),
            (false, _) => writeln!(
                f,
                "verdict: without a guard, {lost} of {made} updates were lost"
            ),
        }
    }
}

/// Durations in ascending order.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The shortest time that at least `percent` of the times do not exceed, in milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        let time = self.0.get(rank.saturating_sub(1));
        time.map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, max] = [50, 99, 100].map(|percent| self.percentile(percent));
        write!(
            f,
            "median {median:>7.2} ms   p99 {p99:>7.2} ms   max {max:>7.2} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ms: impl Iterator<Item = u64>) -> Times {
        Times::of(ms.map(Duration::from_millis).collect())
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let hundred = times((1..=100).rev());
        let [median, p99, max] = [50, 99, 100].map(|p| hundred.percentile(p));
        assert_eq!((median, p99, max), (50.0, 99.0, 100.0));
        assert_eq!(times([7].into_iter()).percentile(50), 7.0);
        assert_eq!(times([].into_iter()).percentile(99), 0.0);
    }

    #[test]
    fn a_lost_update_is_a_failure_only_with_a_guard() {
        for (guarded, survived, good) in [(true, 1, true), (true, 0, false), (false, 0, true)] {
            let mut tally = Tally::default();
            tally.add(Duration::ZERO, Duration::ZERO);
            let mut report = Report::new(guarded, 1, tally, Duration::ZERO);
            report.survived = survived;
            assert_eq!(report.is_good(), good, "{report}");
        }
    }
}
