//! The keeper: what a guard does that nobody waits for.
//!
//! It renews leases, notices when one is lost, goes on with releases that could not be made at once, and
//! warns of leases that are held for long. It never runs user code. Each node of the store has a lane with a thread
//! of its own, so that one that hangs costs the leases on others nothing.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::lane::{Common, Lane};
use crate::store::NodeId;
use crate::worker::Worker;

pub(crate) use crate::lane::{Doubt, THREAD_NAME};

/// The keeper's handle.
pub(crate) struct Keeper {
    common: Arc<Common>,
    lanes: Arc<Lanes>,
    /// Which node has the first lane: the one that was asked for first, most often the only one.
    first_node: OnceLock<NodeId>,
}

struct Lanes {
    /// Started with the guard.
    first: Arc<Lane>,
    /// Protects the lanes of further nodes, their threads, and whether there may be more.
    further: Mutex<Further>,
}

#[derive(Default)]
struct Further {
    lanes: HashMap<NodeId, Arc<Lane>>,
    workers: Vec<Worker>,
    stopped: bool,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) fn start(common: Common) -> Result<Self, io::Error> {
        let common = Arc::new(common);
        let first = Arc::new(Lane::new(Arc::clone(&common), true));
        let mut further = Further::default();
        further.workers.push(first.start()?);
        let lanes = Arc::new(Lanes {
            first,
            further: Mutex::new(further),
        });
        let listener = Arc::downgrade(&lanes);
        common
            .clock
            .on_jump(Arc::new(move || match listener.upgrade() {
                Some(lanes) => {
                    lanes.each(Lane::clock_jumped);
                    true
                }
                None => false,
            }));
        Ok(Self {
            common,
            lanes,
            first_node: OnceLock::new(),
        })
    }

    /// The lane of a node. Where the system gives no thread for it, that of another one.
    pub(crate) fn lane(&self, node: NodeId) -> Arc<Lane> {
        let first = &self.lanes.first;
        if *self.first_node.get_or_init(|| node) == node {
            return Arc::clone(first);
        }
        let refused = {
            let mut further = self.lanes.further.lock();
            if let Some(lane) = further.lanes.get(&node) {
                return Arc::clone(lane);
            }
            if further.stopped {
                return Arc::clone(first);
            }
            let lane = Arc::new(Lane::new(Arc::clone(&self.common), false));
            match lane.start() {
                Ok(worker) => {
                    further.workers.push(worker);
                    further.lanes.insert(node, Arc::clone(&lane));
                    return lane;
                }
                Err(refused) => {
                    further.lanes.insert(node, Arc::clone(first));
                    refused
                }
            }
        };
        log::warn!(
            target: crate::LOG_TARGET,
            "no thread for the background work on one more node of the store: it waits for that on others: {refused}"
        );
        Arc::clone(first)
    }

    /// Lets the threads finish; releases that are left at `deadline` are given up.
    pub(crate) fn stop(&self, deadline: Instant) -> Vec<Worker> {
        let workers = {
            let mut further = self.lanes.further.lock();
            further.stopped = true;
            std::mem::take(&mut further.workers)
        };
        self.lanes.each(|lane| lane.stop(deadline));
        workers
    }
}

impl Lanes {
    fn each(&self, work: impl Fn(&Lane)) {
        work(&self.first);
        let further: Vec<_> = self.further.lock().lanes.values().cloned().collect();
        for lane in further {
            work(&lane);
        }
    }
}
