//! Operations in a cluster: each goes to the master of its hash slot.
//!
//! The map of masters is read from any server of the cluster, over a connection of its own. It need not be
//! right: a server that is asked for another's hash slot says whose it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use guard_core::{
    Budget, ConfigError, NodeId, Registration, SlotName, StoreError, Subscriber, Watch,
};
use parking_lot::{Mutex, RwLock};
use redis::{ConnectionAddr, ConnectionInfo, RedisError, Value, cmd};

use crate::connection::dial::{dial, shake_hands, share};
use crate::connection::endpoint::Endpoint;
use crate::connection::exchange::Exchange;
use crate::connection::operation::Operation;
use crate::connection::route::Route;
use crate::protocol::failure::Failure;
use crate::protocol::fencing_counter::hash_slot_of;
use crate::topology::address::{at, list};
use crate::topology::cluster::map::{self, Address, Map};
use crate::topology::contract::{Source, Topology};
use crate::topology::greeting::warn_of_state;
use crate::topology::server::Server;
use crate::topology::settings::Settings;
use crate::wakeups::subscribers::Place;

const ASKING: &str = "asking for the cluster's slots";
/// How often an operation is sent on before it fails: what is sent back and forth for longer will be for a
/// while.
const MAX_REDIRECTIONS: usize = 8;

/// The servers of a cluster.
pub(crate) struct Cluster {
    /// How servers are reached, but for where.
    like: Endpoint,
    seeds: Vec<Address>,
    settings: Settings,
    /// Protects the map. It is free while a server is asked.
    map: RwLock<Map>,
    /// Protects which servers there are connections to, but not their use.
    servers: Mutex<HashMap<Address, Arc<Server>>>,
    /// Whether a failure hints that the map is old.
    stale: AtomicBool,
    /// Held by whoever reads the map, since one at a time will do. Nobody waits for it.
    reading: Mutex<()>,
    /// Counts the readings, so that each begins with another server.
    readings: AtomicUsize,
}

/// Where a server sends an operation on to.
enum Redirection {
    /// The hash slot is there for good.
    Moved(Address),
    /// The hash slot is on its way there, and the key too.
    Ask(Address),
}

impl Cluster {
    /// Reads the map from one of `seeds`.
    fn open(seeds: &[Endpoint], settings: Settings, budget: Budget) -> Result<Self, StoreError> {
        let no_seeds = || StoreError::permanent("there are no addresses of cluster nodes");
        let cluster = Self {
            like: seeds.first().ok_or_else(no_seeds)?.clone(),
            seeds: seeds.iter().filter_map(address_of).collect(),
            settings,
            map: RwLock::new(Map::new()),
            servers: Mutex::default(),
            stale: AtomicBool::new(false),
            reading: Mutex::new(()),
            readings: AtomicUsize::new(0),
        };
        cluster.read_map(&[], budget)?;
        Ok(cluster)
    }

    /// The server that has `slot`, if it tells of changes now. If somebody waits there for the first time, it
    /// soon will.
    fn teller(&self, slot: &SlotName) -> Option<Arc<Server>> {
        let server = self.server(slot)?;
        (server.wakeups.is_on() && server.wakeups.is_healthy()).then_some(server)
    }

    /// The server that has `slot`, if anybody knows.
    fn server(&self, slot: &SlotName) -> Option<Arc<Server>> {
        let address = self.map.read().master(hash_slot_of(slot)).cloned();
        address.map(|address| self.server_at(&address))
    }

    /// All servers that have hash slots.
    fn masters(&self) -> Vec<Arc<Server>> {
        let masters = self.map.read().masters();
        masters.iter().map(|it| self.server_at(it)).collect()
    }

    fn master(&self, hash_slot: u16, budget: Budget) -> Result<Address, Failure> {
        if self.stale.load(Ordering::Acquire) {
            self.refresh(&[], budget);
        }
        let known = || self.map.read().master(hash_slot).cloned();
        known()
            .or_else(|| {
                self.refresh(&[], budget);
                known()
            })
            .ok_or_else(|| {
                Failure::NotSent(StoreError::transient(
                    "no server of the cluster has the hash slot",
                ))
            })
    }

    /// Who has the hash slot now that an operation on `server` has failed. If it still is that one, or the
    /// failure is an answer, the failure stands.
    fn successor(
        &self,
        hash_slot: u16,
        server: Address,
        failure: Failure,
        budget: Budget,
    ) -> Result<Address, Failure> {
        match &failure {
            Failure::Answer(error) if error.code() == Some("CLUSTERDOWN") => {
                self.stale.store(true, Ordering::Release);
                return Err(failure);
            }
            Failure::Answer(_) | Failure::Unreplicated(_) => return Err(failure),
            Failure::Connection(_) | Failure::NotSent(_) | Failure::Demoted => {}
        }
        // If no time is left now, the next operation reads the map first.
        self.stale.store(true, Ordering::Release);
        self.refresh(&[], budget);
        match self.map.read().master(hash_slot) {
            Some(master) if *master != server => Ok(master.clone()),
            _ => Err(failure),
        }
    }

    /// Reads the map again, unless somebody does.
    fn refresh(&self, first: &[&Address], budget: Budget) {
        let Some(_reading) = self.reading.try_lock() else {
            return;
        };
        // Before the map is read: it may be old again before that is over.
        self.stale.store(false, Ordering::Release);
        // Half of the time: what the map is needed for takes time, too.
        if let Err(error) = self.read_map(first, share(budget, 2)) {
            self.stale.store(true, Ordering::Release);
            log::debug!(target: guard_core::LOG_TARGET, "the cluster's slots cannot be read: {error}");
        }
    }

    /// Reads the map from the first server that tells: one of `first`, of those that are known, or of the seeds.
    fn read_map(&self, first: &[&Address], budget: Budget) -> Result<(), StoreError> {
        let mut servers: Vec<Address> = self.map.read().servers().cloned().collect();
        servers.extend(self.seeds.iter().cloned());
        let turn = self.readings.fetch_add(1, Ordering::Relaxed);
        let start = turn % servers.len().max(1);
        servers.rotate_left(start);
        let mut order: Vec<Address> = Vec::with_capacity(servers.len() + first.len());
        for server in first.iter().copied().cloned().chain(servers) {
            if !order.contains(&server) {
                order.push(server);
            }
        }
        let mut failure = StoreError::transient("there are no servers to ask");
        for (index, server) in order.iter().enumerate() {
            match self.ask(server, share(budget, order.len() - index)) {
                Ok(ranges) => {
                    self.map.write().update(&ranges);
                    self.retire();
                    return Ok(());
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn ask(&self, server: &Address, budget: Budget) -> Result<Vec<map::Range>, StoreError> {
        let mut connection = dial(&self.endpoint(server), budget)?;
        let mut exchange = Exchange::on(&mut connection, budget);
        let answer: Value = shake_hands(ASKING, || exchange.call(cmd("CLUSTER").arg("SLOTS")))?;
        map::read(&answer, server)
            .ok_or_else(|| StoreError::permanent(format!("{ASKING}: the answer is none")))
    }

    /// Gives up the connections to servers that have no hash slots any more.
    fn retire(&self) {
        let masters = self.map.read().masters();
        let is_gone = |address: &Address, _: &mut Arc<Server>| !masters.contains(address);
        let gone: Vec<_> = self.servers.lock().extract_if(is_gone).collect();
        for (_, server) in gone {
            server.wakeups.retire();
        }
    }

    fn server_at(&self, address: &Address) -> Arc<Server> {
        let new = || {
            let route: Arc<dyn Route> = Arc::new(self.endpoint(address));
            let pool = self.settings.pool(Arc::clone(&route), None);
            Server::new(pool, &*route, &self.settings.common)
        };
        let mut servers = self.servers.lock();
        Arc::clone(servers.entry(address.clone()).or_insert_with(new))
    }

    fn endpoint(&self, server: &Address) -> Arc<Endpoint> {
        let addr = at(self.like.addr(), server.host.clone(), server.port);
        Arc::new(self.like.at(addr))
    }
}

impl Topology for Cluster {
    fn operate(
        &self,
        slot: &SlotName,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let hash_slot = hash_slot_of(slot);
        let mut address = self.master(hash_slot, operation.budget)?;
        for _ in 0..MAX_REDIRECTIONS {
            let server = self.server_at(&address);
            let Err(failure) = server.pool.operate(operation, work) else {
                return Ok(());
            };
            operation.asking = false;
            match redirection(&failure, &address) {
                Some(Redirection::Moved(to)) => {
                    self.refresh(&[&to], operation.budget);
                    self.map.write().moved(hash_slot, &to);
                    // Who waits for the slot looks again, and so is told of changes there.
                    self.settings.common.subscribers.wake(slot);
                    address = to;
                }
                Some(Redirection::Ask(to)) => {
                    operation.asking = true;
                    address = to;
                }
                None => {
                    address = self.successor(hash_slot, address, failure, operation.budget)?;
                }
            }
        }
        Err(Failure::NotSent(StoreError::transient(format!(
            "{}: the cluster's servers send it on and on",
            operation.name
        ))))
    }

    fn watching(&self, slot: &SlotName) -> Option<Arc<Server>> {
        if !self.settings.common.subscribers.contains(slot) {
            return None;
        }
        self.teller(slot)
    }

    fn watch(self: Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        let server = self.server(slot);
        if server.is_some_and(|server| !server.wakeups.is_on()) {
            return None;
        }
        Some(Watch::new(Watching {
            _place: self.settings.common.subscribers.add(slot, subscriber),
            slot: slot.clone(),
            cluster: self,
        }))
    }

    /// The shard that has `slot`, by number.
    fn node(&self, slot: &SlotName) -> NodeId {
        self.map.read().shard(hash_slot_of(slot))
    }

    fn group(&self, slot: &SlotName) -> u16 {
        hash_slot_of(slot)
    }

    fn cut_off(&self) {
        // All connections to its servers have their sockets there.
        self.like.sockets().hang_up();
    }
}

impl Drop for Cluster {
    /// Each line waits for its thread when it is dropped: let them end together.
    fn drop(&mut self) {
        let servers = self.servers.get_mut();
        servers.values().for_each(|server| server.wakeups.stop());
    }
}

/// A waiter's watch, which follows its slot to another server.
struct Watching {
    _place: Place,
    slot: SlotName,
    cluster: Arc<Cluster>,
}

impl Registration for Watching {
    fn is_healthy(&self) -> bool {
        self.cluster.teller(&self.slot).is_some()
    }
}

fn address_of(server: &Endpoint) -> Option<Address> {
    match server.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some(Address {
                host: host.clone(),
                port: *port,
            })
        }
        _ => None,
    }
}

fn redirection(failure: &Failure, asked: &Address) -> Option<Redirection> {
    let Failure::Answer(error) = failure else {
        return None;
    };
    let to = |error: &RedisError| Address::parse(error.redirect_node()?.0, asked);
    match error.code() {
        Some("MOVED") => to(error).map(Redirection::Moved),
        Some("ASK") => to(error).map(Redirection::Ask),
        _ => None,
    }
}

/// The addresses of some nodes of a cluster.
pub(crate) struct Nodes(pub(crate) Vec<ConnectionInfo>);

impl Source for Nodes {
    fn open(self: Box<Self>, settings: Settings) -> Result<Arc<dyn Topology>, ConfigError> {
        let shown = self.shown(settings.database);
        let nodes = self.0.into_iter().map(|node| settings.endpoint(node));
        let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(ConfigError::setting("nodes", "there are none"));
        }
        if nodes.iter().any(|node| node.settings().db() != 0) {
            let reason = "a cluster has no other than 0";
            return Err(ConfigError::setting("database", reason));
        }
        let (budget, replicas) = (settings.budget(), settings.min_replicas);
        let cluster = Cluster::open(&nodes, settings, budget)
            .map_err(|error| ConfigError::connect(&shown, error))?;
        for server in cluster.masters() {
            let mut operation = Operation::new("greeting", budget, None);
            let mut warn = |exchange: &mut Exchange<'_>| warn_of_state(exchange, replicas);
            // One that does not answer now may later.
            let _ = server.pool.operate(&mut operation, &mut warn);
        }
        Ok(Arc::new(cluster))
    }

    fn shown(&self, _: Option<i64>) -> String {
        format!("the cluster of {}", list(&self.0))
    }
}
