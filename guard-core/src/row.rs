//! Hand-overs in a row: bounded, so that other processes get their turn.

use std::time::{Duration, Instant};

/// How far a row of hand-overs may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLimits {
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

/// The hand-overs that a lease came by, since its slot was last taken from the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    handed: u32,
    since: Option<Instant>,
    contested: bool,
}

impl Row {
    /// A lease taken from the store; `contested` if its entry saw that other processes want the slot.
    pub(crate) fn begin(contested: bool) -> Self {
        Self {
            contested,
            ..Self::default()
        }
    }

    /// The row after one more hand-over at `now`.
    pub(crate) fn next(self, now: Instant) -> Self {
        Self {
            handed: self.handed.saturating_add(1),
            since: self.since.or(Some(now)),
            ..self
        }
    }

    /// Whether one more hand-over at `now` is within the limits.
    pub(crate) fn goes_on(&self, limits: RowLimits, now: Instant) -> bool {
        let time = self.since.map(|since| now.saturating_duration_since(since));
        self.handed < limits.count && time.is_none_or(|time| time < limits.time)
    }

    /// Whether other processes were seen to want the slot.
    pub(crate) const fn is_contested(&self) -> bool {
        self.contested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_ends_by_count_or_by_time_from_its_first_hand_over() {
        let limits = RowLimits {
            count: 2,
            time: Duration::from_secs(1),
        };
        let start = Instant::now();
        let row = Row::begin(true);
        assert!(row.goes_on(limits, start + Duration::from_secs(60)));
        let row = row.next(start);
        assert!(row.goes_on(limits, start + Duration::from_millis(999)));
        assert!(!row.goes_on(limits, start + Duration::from_secs(1)));
        let row = row.next(start);
        assert!(!row.goes_on(limits, start) && row.is_contested());
    }
}
