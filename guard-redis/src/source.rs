//! Where a guard's builder is told to find the leases, and the first connection there.

use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, Capabilities, ConfigError, StoreError};
use r2d2::Pool;
use redis::{Client, ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use crate::answer::{Pong, Role};
#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::error::classify;
use crate::failure::Failure;
use crate::links::Links;
use crate::live::Live;
use crate::replicas::Replicas;
use crate::route::Route;
#[cfg(feature = "sentinel")]
use crate::sentinel::{Sentinels, news};
use crate::servers::{Server, Servers};
#[cfg(feature = "cluster")]
use crate::session::Operation;
use crate::session::Session;
#[cfg(feature = "sentinel")]
use crate::sockets::Sockets;
use crate::store::RedisStore;
#[cfg(feature = "tls-rustls")]
use crate::tls::TlsSettings;
use crate::unanswered::Unanswered;
use crate::wakeups::LineSettings;

/// The one eviction policy under which the server does not drop leases when its memory is full.
const SAFE_POLICY: &str = "noeviction";

/// Where the leases are.
pub(crate) enum Source {
    Address(ConnectionInfo),
    Pool(ConnectionInfo, Pool<Client>),
    #[cfg(feature = "sentinel")]
    Sentinel(Vec<ConnectionInfo>, String),
    #[cfg(feature = "cluster")]
    Cluster(Vec<ConnectionInfo>),
}

/// What the builder was told of connections.
pub(crate) struct Means {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: Option<i64>,
    pub(crate) pool_size: u32,
    #[cfg(feature = "tls-rustls")]
    pub(crate) tls: TlsSettings,
    pub(crate) line: LineSettings,
}

/// Who we are to a server.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Source {
    /// Connects, within the timeout, and makes the store.
    pub(crate) fn open(
        self,
        means: Means,
        capabilities: Capabilities,
        replicas: Replicas,
    ) -> Result<RedisStore, ConfigError> {
        let budget = Budget::new(means.line.operation_timeout);
        let shown = self.shown(means.database);
        let refuse = |error: StoreError| ConfigError::connect(&shown, error);
        let servers = match self {
            Self::Address(info) => {
                let route = Route::direct(means.apply(info)?);
                let mut first = greet(&route, replicas, budget).map_err(refuse)?;
                stands_alone(&mut first, budget)?;
                Servers::One(means.one(route, first))
            }
            Self::Pool(info, pool) => {
                #[cfg(feature = "tls-rustls")]
                means.tls.are_the_pools(&info)?;
                if means.credentials.is_some() {
                    let reason = "a pool and its client bring their own";
                    return Err(ConfigError::setting("credentials", reason));
                }
                if means.database.is_some() {
                    let reason = "a pool and its client bring their own";
                    return Err(ConfigError::setting("database", reason));
                }
                let client = Client::open(info.clone());
                let client = client.map_err(|error| refuse(classify("connecting", error)))?;
                let route = Route::direct(means.secure(info)?);
                let mut first = greet(&route, replicas, budget).map_err(refuse)?;
                stands_alone(&mut first, budget)?;
                let (timeout, unanswered) = means.links();
                let links = Links::given(route.clone(), client, pool, timeout, unanswered);
                Servers::One(Server::new(links, &route, means.line.clone()))
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinels, master_name) => {
                if sentinels.is_empty() {
                    return Err(ConfigError::setting("sentinels", "there are none"));
                }
                // The sentinels' own credentials are not the master's.
                let settings = means.settings(RedisConnectionInfo::default())?;
                let sentinels = sentinels.into_iter().map(|it| means.secure(it));
                let sentinels = sentinels.collect::<Result<_, _>>()?;
                let sentinels = Arc::new(Sentinels::new(sentinels, master_name, settings));
                let route = Route::Sentinel(Arc::clone(&sentinels), Sockets::new());
                let first = greet(&route, replicas, budget).map_err(refuse)?;
                let server = means.one(route, first);
                news::listen(&server, sentinels, means.line.operation_timeout)?;
                Servers::One(server)
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(nodes) => {
                let nodes = nodes.into_iter().map(|node| means.apply(node));
                let nodes: Vec<_> = nodes.collect::<Result<_, _>>()?;
                if nodes.is_empty() {
                    return Err(ConfigError::setting("nodes", "there are none"));
                }
                if nodes.iter().any(|node| node.settings().db() != 0) {
                    let reason = "a cluster has no other than 0";
                    return Err(ConfigError::setting("database", reason));
                }
                let line = means.line.clone();
                let cluster = Cluster::open(&nodes, means.pool_size, line, budget);
                let cluster = cluster.map_err(refuse)?;
                for server in cluster.masters() {
                    let mut operation = Operation::new("greeting", budget, None);
                    // One that does not answer now may later.
                    let warn = |session: &mut Session<'_>| warn_of_state(session, replicas);
                    let _ = server.links.operate(&mut operation, warn);
                }
                Servers::Cluster(Arc::new(cluster))
            }
        };
        Ok(RedisStore::new(
            servers,
            means.line.unanswered,
            capabilities,
            replicas,
        ))
    }
}

impl Means {
    /// One server, or one master at a time.
    fn one(&self, route: Route, first: Live) -> Arc<Server> {
        let (timeout, unanswered) = self.links();
        let links = Links::new(
            route.clone(),
            self.pool_size,
            Some(first),
            timeout,
            unanswered,
        );
        Server::new(links, &route, self.line.clone())
    }

    fn links(&self) -> (Duration, Arc<Unanswered>) {
        (
            self.line.operation_timeout,
            Arc::clone(&self.line.unanswered),
        )
    }

    /// An address with the credentials, the database and the certificates that were set.
    fn apply(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        let settings = self.settings(info.redis_settings().clone())?;
        self.secure(info.set_redis_settings(settings))
    }

    /// An address with the certificates that were set.
    #[cfg(feature = "tls-rustls")]
    fn secure(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        self.tls.apply(info)
    }

    #[cfg(not(feature = "tls-rustls"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as above")]
    fn secure(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        Ok(Endpoint::new(info))
    }

    /// The credentials and the database that were set, instead of those that are there.
    fn settings(
        &self,
        mut settings: RedisConnectionInfo,
    ) -> Result<RedisConnectionInfo, ConfigError> {
        if let Some(Credentials { user, password }) = &self.credentials {
            settings = settings.set_username(user).set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database);
        }
        let database = settings.db();
        if database < 0 {
            let reason = format!("{database} is negative, the minimum is 0");
            return Err(ConfigError::setting("database", reason));
        }
        Ok(settings)
    }
}

/// Opens a connection and makes sure that a Redis server answers on it.
fn greet(route: &Route, replicas: Replicas, budget: Budget) -> Result<Live, StoreError> {
    let mut live = route.dial(budget)?;
    let mut session = Session::of(&mut live, budget);
    session
        .call::<Pong>(&redis::cmd("PING"))
        .map_err(|failure| failure.into_store_error("greeting"))?;
    // Whether it tells or not.
    let _ = warn_of_state(&mut session, replicas);
    Ok(live)
}

/// Makes sure that a server which was named directly keeps leases, and keeps all of them. One that does not tell is
/// taken for such a one.
fn stands_alone(live: &mut Live, budget: Budget) -> Result<(), ConfigError> {
    let mut session = Session::of(live, budget);
    let refuse = |reason: String| Err(ConfigError::setting("address", reason));
    match session.role() {
        Ok(Role::Replica(master)) => {
            return refuse(format!(
                "the server is a replica, of {master}: name its master, or let sentinels name it (`sentinel`, with \
                 feature `sentinel`)"
            ));
        }
        Ok(Role::Sentinel) => {
            let reason = "the server is a sentinel: use `sentinel`, with feature `sentinel`";
            return refuse(reason.to_owned());
        }
        Ok(Role::Untold) => log::warn!(
            target: guard_core::LOG_TARGET,
            "the Redis server does not tell its role (`ROLE`): should it become a replica, its word is believed"
        ),
        Ok(Role::Master) | Err(_) => {}
    }
    let in_cluster = ask_for(&mut session, "cluster", "cluster_enabled:");
    if matches!(in_cluster, Ok(Some(enabled)) if enabled == "1") {
        let reason = "the server is a node of a cluster, and has some of the slots only: use `cluster`, with feature \
                      `cluster`";
        return refuse(reason.to_owned());
    }
    Ok(())
}

/// Says what of the server's state will harm or hinder. A server that does not tell is taken for a good one.
fn warn_of_state(session: &mut Session<'_>, Replicas(wanted): Replicas) -> Result<(), Failure> {
    let policy = ask_for(session, "memory", "maxmemory_policy:")?;
    if let Some(policy) = policy.filter(|policy| policy != SAFE_POLICY) {
        log::warn!(
            target: guard_core::LOG_TARGET,
            "the Redis server's maxmemory-policy is {policy:?}: it may evict leases; set it to {SAFE_POLICY:?}"
        );
    }
    if wanted == 0 {
        return Ok(());
    }
    let connected = ask_for(session, "replication", "connected_slaves:")?;
    let connected = connected.and_then(|it| it.parse::<u32>().ok());
    if let Some(connected) = connected.filter(|connected| *connected < wanted) {
        log::warn!(
            target: guard_core::LOG_TARGET,
            "`min_replicas` is {wanted}, but the Redis server has {connected} connected replicas: nobody enters \
             while they are fewer"
        );
    }
    Ok(())
}

/// One line of the server's `INFO`.
fn ask_for(
    session: &mut Session<'_>,
    section: &str,
    name: &str,
) -> Result<Option<String>, Failure> {
    let info: String = session.call(redis::cmd("INFO").arg(section))?;
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.map(str::to_owned))
}

impl Source {
    /// The addresses without credentials, and the database: `database` if it was set, else the address's.
    pub(crate) fn shown(&self, database: Option<i64>) -> String {
        match self {
            Self::Address(info) | Self::Pool(info, _) => {
                let database = database.unwrap_or_else(|| info.redis_settings().db());
                format!("{} (database {database})", shown(info))
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinels, master_name) => {
                let (database, sentinels) = (database.unwrap_or_default(), list(sentinels));
                format!(
                    "the master {master_name:?} (database {database}) of the sentinels {sentinels}"
                )
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(nodes) => format!("the cluster of {}", list(nodes)),
        }
    }
}

#[cfg(any(feature = "sentinel", feature = "cluster"))]
fn list(servers: &[ConnectionInfo]) -> String {
    let servers: Vec<_> = servers.iter().map(shown).collect();
    servers.join(", ")
}

fn shown(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => format!("redis://{}", place(host, *port)),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}", place(host, *port)),
        other => format!("unix://{other}"),
    }
}

/// A host and a port as they are written in a URL.
fn place(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
