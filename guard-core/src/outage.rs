//! How long each node of the store has been failing.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::store::NodeId;

/// One outage clock a node: it starts at the first transient failure and ends at the first answer.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Whether `since` holds anything: spares the healthy path the lock. It is changed under that lock.
    any: AtomicBool,
    /// Protects the starts of the outages under way.
    since: Mutex<HashMap<NodeId, Instant>>,
}

impl Outages {
    /// Notes a transient failure; answers how long the node has been failing, `None` if this is the first.
    pub(crate) fn failed(&self, node: NodeId, now: Instant) -> Option<Duration> {
        let mut since = self.since.lock();
        self.any.store(true, Ordering::Release);
        match since.entry(node) {
            Entry::Occupied(start) => Some(now.saturating_duration_since(*start.get())),
            Entry::Vacant(none) => {
                none.insert(now);
                None
            }
        }
    }

    /// Notes an answer; answers how long the outage that it ends has lasted.
    pub(crate) fn answered(&self, node: NodeId) -> Option<Duration> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut since = self.since.lock();
        let ended = since.remove(&node);
        self.any.store(!since.is_empty(), Ordering::Release);
        ended.map(|start| start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_runs_from_the_first_failure_to_the_first_answer_of_its_node() {
        let (outages, start) = (Outages::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(outages.failed(NodeId(1), start), None);
        assert_eq!(outages.failed(NodeId(1), start + second), Some(second));
        assert_eq!(outages.failed(NodeId(2), start + second), None);
        assert!(outages.answered(NodeId(1)).is_some());
        assert!(outages.answered(NodeId(1)).is_none());
        assert_eq!(outages.failed(NodeId(2), start + 2 * second), Some(second));
        assert_eq!(outages.failed(NodeId(1), start + 2 * second), None);
    }
}
