//! Finding the master by asking sentinels.
//!
//! Every new connection asks anew, and is made sure to lead to a master before it is used. So whatever ends a
//! connection, its successor follows a failover. That a connection leads to a master which was replaced and lives on,
//! one of the sentinels tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use guard_core::{Budget, StoreError};
use parking_lot::Mutex;
use redis::{ConnectionAddr, RedisConnectionInfo, Value, cmd};

use crate::connection::dial::{dial, shake_hands, share};
use crate::connection::endpoint::Endpoint;
use crate::connection::exchange::Exchange;
use crate::connection::open_connection::OpenConnection;
use crate::connection::open_sockets::OpenSockets;
use crate::connection::route::Route;
use crate::protocol::answer::{Answer, Role};
use crate::topology::address::at;

const ASKING: &str = "asking a sentinel";

/// The sentinels that watch over one master.
pub(crate) struct Sentinels {
    pub(super) sentinels: Vec<Endpoint>,
    pub(super) master_name: String,
    /// Credentials and database of the master.
    settings: RedisConnectionInfo,
    /// The sentinel that was right the last time.
    pub(super) first: AtomicUsize,
    /// Protects where the last connection leads to.
    master: Mutex<Option<ConnectionAddr>>,
}

impl Sentinels {
    pub(crate) fn new(
        sentinels: Vec<Endpoint>,
        master_name: String,
        settings: RedisConnectionInfo,
    ) -> Self {
        Self {
            sentinels,
            master_name,
            settings,
            first: AtomicUsize::new(0),
            master: Mutex::new(None),
        }
    }

    /// Opens a connection to the master. Each sentinel has a share of the time that is left for its answer and
    /// for a connection to the server that it names: one that hangs, or that knows less than the others, costs
    /// no more than that.
    fn dial(
        &self,
        sockets: &Arc<OpenSockets>,
        budget: Budget,
    ) -> Result<OpenConnection, StoreError> {
        // What is said of the master from now on is news to this connection.
        let since = Instant::now();
        let mut failure = StoreError::transient("there are no sentinels");
        let first = self.first.load(Ordering::Relaxed);
        let mut tried: Vec<Arc<Endpoint>> = Vec::new();
        let count = self.sentinels.len();
        let in_turn = self.sentinels.iter().enumerate().cycle().skip(first);
        for (turn, (index, sentinel)) in in_turn.take(count).enumerate() {
            let share = share(budget, count - turn);
            let sentinel = Arc::new(sentinel.within(sockets));
            let result = self.ask(&sentinel, share).and_then(|master| {
                if tried.iter().any(|server| server.addr() == master.addr()) {
                    return Ok(None);
                }
                tried.push(Arc::clone(&master));
                let connection = dial_master(&master, share)?;
                *self.master.lock() = Some(master.addr().clone());
                Ok(Some(connection))
            });
            match result {
                Ok(Some(mut connection)) => {
                    connection.since = since;
                    // Unless news has come meanwhile, which says more.
                    let _ = self.first.compare_exchange(
                        first,
                        index,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    return Ok(connection);
                }
                // It names a server that has just failed.
                Ok(None) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    pub(super) fn ask(
        &self,
        sentinel: &Arc<Endpoint>,
        budget: Budget,
    ) -> Result<Arc<Endpoint>, StoreError> {
        let mut connection = dial(sentinel, budget)?;
        let mut exchange = Exchange::on(&mut connection, budget);
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master_name);
        let answer: Option<Place> = shake_hands(ASKING, || exchange.call(&ask))?;
        let Place(host, port) = answer.ok_or_else(|| {
            StoreError::transient(format!(
                "{ASKING}: it knows no master {:?}",
                self.master_name
            ))
        })?;
        let master = sentinel.at(at(sentinel.addr(), host, port));
        Ok(Arc::new(master.with_settings(self.settings.clone())))
    }

    /// Whether `master` is not where the last connection leads to.
    pub(super) fn is_another(&self, master: &Endpoint) -> bool {
        let last = self.master.lock();
        last.as_ref().is_some_and(|last| last != master.addr())
    }
}

/// The way to whichever server the sentinels name.
pub(crate) struct ToMaster {
    sentinels: Arc<Sentinels>,
    sockets: Arc<OpenSockets>,
}

impl ToMaster {
    pub(crate) fn new(sentinels: &Arc<Sentinels>) -> Self {
        Self {
            sentinels: Arc::clone(sentinels),
            sockets: OpenSockets::new(),
        }
    }
}

impl Route for ToMaster {
    fn dial(&self, budget: Budget) -> Result<OpenConnection, StoreError> {
        self.sentinels.dial(&self.sockets, budget)
    }

    fn within(&self, sockets: &Arc<OpenSockets>) -> Arc<dyn Route> {
        Arc::new(Self {
            sentinels: Arc::clone(&self.sentinels),
            sockets: Arc::clone(sockets),
        })
    }

    fn sockets(&self) -> &Arc<OpenSockets> {
        &self.sockets
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Where a sentinel says that the master is.
struct Place(String, u16);

impl Answer for Place {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(parts) = value else {
            return None;
        };
        let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else {
            return None;
        };
        let host = std::str::from_utf8(host).ok()?;
        let port = std::str::from_utf8(port).ok()?.parse().ok()?;
        (!host.is_empty() && port != 0).then(|| Self(host.to_owned(), port))
    }
}

/// Opens a connection to a server, and makes sure that it is a master.
fn dial_master(server: &Arc<Endpoint>, budget: Budget) -> Result<OpenConnection, StoreError> {
    let mut connection = dial(server, budget)?;
    let mut exchange = Exchange::on(&mut connection, budget);
    match shake_hands("asking for its role", || exchange.role())? {
        Role::Master | Role::Untold => Ok(connection),
        Role::Replica(_) | Role::Sentinel => Err(StoreError::transient(
            "the server that the sentinels name is no master, or not yet",
        )),
    }
}
