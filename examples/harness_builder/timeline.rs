//! What happened when, for all calls together.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::Step;

/// A record of steps, in the order in which they were made. Clones share it.
#[derive(Clone)]
pub(crate) struct Timeline {
    start: Instant,
    /// Protects the entries, and so their order.
    entries: Arc<Mutex<Vec<Entry>>>,
}

struct Entry {
    at: Duration,
    call: String,
    step: Step,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            entries: Arc::default(),
        }
    }
}

impl Timeline {
    /// Something that records the steps of each thread under the thread's name.
    pub(crate) fn recorder(&self) -> impl Fn(Step) + Send + Sync + 'static {
        let timeline = self.clone();
        move |step| {
            let call = thread::current().name().unwrap_or("main").to_owned();
            timeline.add(call, step);
        }
    }

    fn add(&self, call: String, step: Step) {
        let mut entries = self.entries();
        entries.push(Entry {
            at: self.start.elapsed(),
            call,
            step,
        });
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many steps were made in a sandbox while another call was in it.
    pub(crate) fn overlaps(&self) -> usize {
        let mut inside: Vec<&str> = Vec::new();
        let mut overlaps = 0;
        for Entry { call, step, .. } in &*self.entries() {
            match step {
                Step::Waits => continue,
                Step::Enters => inside.push(call),
                Step::Leaves => inside.retain(|other| other != call),
                _ => {}
            }
            overlaps += usize::from(inside.iter().any(|other| other != call));
        }
        overlaps
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { at, call, step } in &*self.entries() {
            let ms = at.as_secs_f64() * 1000.0;
            writeln!(f, "{ms:>8.2} ms  {call:<14}{step}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(steps: &[(&str, Step)]) -> usize {
        let timeline = Timeline::default();
        for (call, step) in steps {
            timeline.add((*call).to_owned(), *step);
        }
        timeline.overlaps()
    }

    #[test]
    fn one_call_after_the_other_is_no_overlap() {
        use Step::{Enters, Leaves, Waits};
        let steps = [("a", Enters), ("b", Waits), ("a", Leaves), ("b", Enters)];
        assert_eq!(overlaps(&steps), 0);
    }

    #[test]
    fn a_call_that_enters_before_the_other_has_left_is_an_overlap() {
        use Step::{Enters, Leaves, Stops};
        let steps = [
            ("a", Enters),
            ("b", Enters),
            ("a", Stops),
            ("a", Leaves),
            ("b", Leaves),
        ];
        assert_eq!(overlaps(&steps), 3);
    }
}
