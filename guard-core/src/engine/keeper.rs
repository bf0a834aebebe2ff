//! The keeper: what a guard does that nobody waits for.
//!
//! It renews leases, notices when one is lost, goes on with releases that could not be made at once, and
//! warns of leases that are held for long. It never runs user code. Each node of the store has a thread
//! of its own, so that one that hangs costs the leases on others nothing.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::engine::node_keeper::{Common, NodeKeeper};
use crate::engine::worker::Worker;
use crate::store::contract::NodeId;

/// The keeper's handle.
pub(crate) struct Keeper {
    common: Arc<Common>,
    nodes: Arc<Nodes>,
    /// Which node has the first one: the one that was asked for first, most often the only one.
    first_node: OnceLock<NodeId>,
}

struct Nodes {
    /// Started with the guard.
    first: Arc<NodeKeeper>,
    /// Protects the keepers of further nodes, their threads, and whether there may be more.
    further: Mutex<Further>,
}

#[derive(Default)]
struct Further {
    keepers: HashMap<NodeId, Arc<NodeKeeper>>,
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
        let first = Arc::new(NodeKeeper::new(Arc::clone(&common), true));
        let mut further = Further::default();
        further.workers.push(first.start()?);
        let nodes = Arc::new(Nodes {
            first,
            further: Mutex::new(further),
        });
        let listener = Arc::downgrade(&nodes);
        common
            .clock
            .on_jump(Arc::new(move || match listener.upgrade() {
                Some(nodes) => {
                    nodes.each(NodeKeeper::clock_jumped);
                    true
                }
                None => false,
            }));
        Ok(Self {
            common,
            nodes,
            first_node: OnceLock::new(),
        })
    }

    /// The keeper of a node. Where the system gives no thread for it, that of another one.
    pub(crate) fn of(&self, node: NodeId) -> Arc<NodeKeeper> {
        let first = &self.nodes.first;
        if *self.first_node.get_or_init(|| node) == node {
            return Arc::clone(first);
        }
        let refused = {
            let mut further = self.nodes.further.lock();
            if let Some(keeper) = further.keepers.get(&node) {
                return Arc::clone(keeper);
            }
            if further.stopped {
                return Arc::clone(first);
            }
            let keeper = Arc::new(NodeKeeper::new(Arc::clone(&self.common), false));
            match keeper.start() {
                Ok(worker) => {
                    further.workers.push(worker);
                    further.keepers.insert(node, Arc::clone(&keeper));
                    return keeper;
                }
                Err(refused) => {
                    further.keepers.insert(node, Arc::clone(first));
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
            let mut further = self.nodes.further.lock();
            further.stopped = true;
            std::mem::take(&mut further.workers)
        };
        self.nodes.each(|keeper| keeper.stop(deadline));
        workers
    }
}

impl Nodes {
    fn each(&self, work: impl Fn(&NodeKeeper)) {
        work(&self.first);
        let further: Vec<_> = self.further.lock().keepers.values().cloned().collect();
        for keeper in further {
            work(&keeper);
        }
    }
}
