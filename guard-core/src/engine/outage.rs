//! How long each node of the store has been failing.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::backoff;
use crate::store::contract::NodeId;

/// One outage clock a node: it starts with the first attempt that fails and ends at the first answer. It stands
/// still while nobody asks: silence is no failure.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Whether `under_way` holds anything: spares the healthy path the lock. It is changed under that lock.
    any: AtomicBool,
    /// Protects the outages under way.
    under_way: Mutex<HashMap<NodeId, Outage>>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    /// For how long attempts have failed, the pauses between them included.
    failing_for: Duration,
    last: Instant,
}

/// Who goes on trying does so after at most this time.
const LONGEST_PAUSE: Duration = backoff::LONGEST.saturating_add(Duration::from_millis(200));

impl Outages {
    /// Notes an attempt that began at `began` and has failed at `now`; answers how long the node has been failing,
    /// and whether this is the first failure. What was before a silence of `forgotten` does not count.
    pub(crate) fn failed(
        &self,
        node: NodeId,
        began: Instant,
        now: Instant,
        forgotten: Duration,
    ) -> (Duration, bool) {
        let mut under_way = self.under_way.lock();
        self.any.store(true, Ordering::Release);
        match under_way.entry(node) {
            Entry::Occupied(outage) => {
                let outage = outage.into_mut();
                let silence = began.saturating_duration_since(outage.last);
                if silence > forgotten {
                    outage.failing_for = Duration::ZERO;
                }
                let from = if silence > LONGEST_PAUSE {
                    began
                } else {
                    outage.last
                };
                outage.failing_for += now.saturating_duration_since(from);
                outage.last = now;
                (outage.failing_for, false)
            }
            Entry::Vacant(none) => {
                let outage = none.insert(Outage {
                    since: began,
                    failing_for: now.saturating_duration_since(began),
                    last: now,
                });
                (outage.failing_for, true)
            }
        }
    }

    /// Notes an answer; answers how long the outage that it ends has lasted.
    pub(crate) fn answered(&self, node: NodeId) -> Option<Duration> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut under_way = self.under_way.lock();
        let ended = under_way.remove(&node);
        self.any.store(!under_way.is_empty(), Ordering::Release);
        ended.map(|outage| outage.since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_outage_runs_from_the_first_failure_to_the_first_answer_of_its_node() {
        let (outages, start) = (Outages::default(), Instant::now());
        let failed = |node, at| outages.failed(NodeId(node), at, at, 10 * SECOND);
        assert_eq!(failed(1, start), (Duration::ZERO, true));
        assert_eq!(failed(1, start + SECOND), (SECOND, false));
        assert_eq!(failed(2, start + SECOND), (Duration::ZERO, true));
        assert!(outages.answered(NodeId(1)).is_some());
        assert!(outages.answered(NodeId(1)).is_none());
        assert_eq!(failed(2, start + 2 * SECOND), (SECOND, false));
        assert!(failed(1, start + 2 * SECOND).1);
    }

    #[test]
    fn silence_is_not_counted_and_a_long_one_begins_anew() {
        let (outages, start) = (Outages::default(), Instant::now());
        let failed = |began, now| outages.failed(NodeId(1), began, now, 10 * SECOND);
        assert_eq!(failed(start, start + 2 * SECOND), (2 * SECOND, true));
        let later = start + 7 * SECOND;
        assert_eq!(failed(later, later + SECOND), (3 * SECOND, false));
        let much_later = later + 12 * SECOND;
        assert_eq!(failed(much_later, much_later + SECOND), (SECOND, false));
    }
}
