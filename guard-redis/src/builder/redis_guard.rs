//! The guard that users name, and its builder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    ConfigError, GuardConfig, LeaseGuard, SandboxIsolationKey, SlotName, forward_guard,
    guard_settings,
};
use r2d2::Pool;
#[cfg(any(feature = "sentinel", feature = "cluster"))]
use redis::ConnectionInfo;
use redis::{ErrorKind, RedisError};

use crate::builder::into_address::IntoAddress;
use crate::connection::manager::RedisConnectionManager;
#[cfg(feature = "tls-rustls")]
use crate::connection::tls::{ClientPem, TlsSettings};
use crate::connection::unanswered::Unanswered;
use crate::protocol::fencing_counter::counter_name;
use crate::store::redis_store::RedisStore;
#[cfg(feature = "cluster")]
use crate::topology::cluster::masters::Nodes;
use crate::topology::contract::Source;
use crate::topology::one_server::Address;
#[cfg(feature = "sentinel")]
use crate::topology::sentinel::watched_master::ByName;
use crate::topology::settings::{Credentials, Settings};
use crate::wakeups::server_wakeups::{Common, Wakeups};

/// The default of `pool_size`. Waiting holds no connection, so this bounds only how many operations run at
/// the same moment.
pub const DEFAULT_POOL_SIZE: u32 = 8;

/// The default of `ghost_window`: 60 s.
pub const DEFAULT_GHOST_WINDOW: Duration = Duration::from_secs(60);

/// What an address looks like.
const FORMS: &str = if cfg!(feature = "tls-rustls") {
    "redis[s]://[user:password@]host[:port][/database] or unix:///path"
} else {
    "redis://[user:password@]host[:port][/database] or unix:///path (rediss:// needs the feature `tls-rustls`)"
};

/// A guard whose slots are keys in Redis.
///
/// Clones share everything.
#[derive(Clone, Debug)]
pub struct RedisSandboxExecutionGuard {
    guard: LeaseGuard<RedisStore>,
}

forward_guard!(impl for RedisSandboxExecutionGuard, guard);

impl RedisSandboxExecutionGuard {
    /// Starts building a guard for the server at `address`: a URL such as `redis://host:6379/0`, with feature
    /// `tls-rustls` also `rediss://host:6380/0`, or a [`redis::ConnectionInfo`]. Connections speak RESP2, whatever
    /// protocol the address asks for.
    pub fn builder(address: impl IntoAddress) -> RedisGuardBuilder {
        RedisGuardBuilder::of(address.into_address().map(Address))
    }

    /// Starts building a guard over a pool of yours, which several guards can share. Take [`r2d2`](crate::r2d2) from here,
    /// so that its version fits.
    ///
    /// ```no_run
    /// use guard_redis::{RedisSandboxExecutionGuard, r2d2::Pool};
    ///
    /// let manager = RedisSandboxExecutionGuard::builder("redis://127.0.0.1/").connection_manager()?;
    /// let pool = Pool::builder().test_on_check_out(false).build(manager)?;
    /// let guard = RedisSandboxExecutionGuard::from_pool(pool).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Guards check their connections by themselves when there is reason to; `test_on_check_out(false)` spares a round
    /// trip each time.
    pub fn from_pool(pool: Pool<RedisConnectionManager>) -> RedisGuardBuilder {
        RedisGuardBuilder::of(Ok(pool))
    }

    /// Starts building a guard for the master that Redis Sentinel calls `master_name`. With feature `sentinel`.
    ///
    /// `sentinels` are some of the addresses of its sentinels, with their own credentials if they ask for any; those
    /// of the master are set with [`credentials`](RedisGuardBuilder::credentials), its database with
    /// [`database`](RedisGuardBuilder::database). With `rediss://` addresses the master is reached by TLS, too.
    ///
    /// Every new connection asks the sentinels, so the guard follows a failover. What that can lose is in the
    /// crate's documentation.
    #[cfg(feature = "sentinel")]
    pub fn sentinel<A: IntoAddress>(
        sentinels: impl IntoIterator<Item = A>,
        master_name: impl Into<String>,
    ) -> RedisGuardBuilder {
        let sentinels = addresses(sentinels);
        RedisGuardBuilder::of(sentinels.map(|sentinels| ByName {
            sentinels,
            master_name: master_name.into(),
        }))
    }

    /// Starts building a guard for a Redis Cluster. With feature `cluster`.
    ///
    /// `nodes` are some of its addresses, from which the others are learnt; credentials and TLS are for all as they are
    /// for the first of these.
    ///
    /// Each slot is on the master of its hash slot, and the guard follows it when that changes. What a failover
    /// can lose is in the crate's documentation.
    #[cfg(feature = "cluster")]
    pub fn cluster<A: IntoAddress>(nodes: impl IntoIterator<Item = A>) -> RedisGuardBuilder {
        RedisGuardBuilder::of(addresses(nodes).map(Nodes))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &RedisStore {
        self.guard.store()
    }

    /// The name of `key`'s slot: the name of the key in Redis.
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        self.guard.slot(key)
    }

    /// The name of the key in Redis that counts `key`'s leases, with fencing on.
    #[must_use]
    pub fn fencing_counter(&self, key: &SandboxIsolationKey) -> String {
        counter_name(&self.slot(key))
    }
}

/// What the client library says of an address, if it says anything; its words are fixed and carry nothing of the
/// address.
fn complaint(error: &RedisError) -> String {
    let text = error.to_string();
    match text.split_once(" - ") {
        // That it did not parse is said already.
        Some(("Redis URL did not parse", _)) => String::new(),
        Some((words, _)) if error.kind() == ErrorKind::InvalidClientConfig => {
            let mut words = words.to_owned();
            if let Some(first) = words.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            format!(" ({words})")
        }
        _ => String::new(),
    }
}

#[cfg(any(feature = "sentinel", feature = "cluster"))]
fn addresses<A: IntoAddress>(
    addresses: impl IntoIterator<Item = A>,
) -> Result<Vec<ConnectionInfo>, RedisError> {
    let addresses = addresses.into_iter();
    addresses.map(IntoAddress::into_address).collect()
}

/// Builds a [`RedisSandboxExecutionGuard`].
#[must_use = "a builder does nothing until `build`"]
pub struct RedisGuardBuilder {
    config: GuardConfig,
    source: Result<Box<dyn Source>, RedisError>,
    credentials: Option<Credentials>,
    database: Option<i64>,
    pool_size: u32,
    wakeups: Wakeups,
    fencing: bool,
    ghost_window: Duration,
    kill_unanswered: bool,
    min_replicas: u32,
    #[cfg(feature = "tls-rustls")]
    tls: TlsSettings,
}

impl RedisGuardBuilder {
    fn of(source: Result<impl Source + 'static, RedisError>) -> Self {
        Self {
            config: GuardConfig::default(),
            source: source.map(|source| Box::new(source) as Box<dyn Source>),
            credentials: None,
            database: None,
            pool_size: DEFAULT_POOL_SIZE,
            wakeups: Wakeups::default(),
            fencing: false,
            ghost_window: DEFAULT_GHOST_WINDOW,
            kill_unanswered: true,
            min_replicas: 0,
            #[cfg(feature = "tls-rustls")]
            tls: TlsSettings::default(),
        }
    }

    guard_settings!();

    /// The user and password for the servers that keep the leases, instead of those in the address. A server
    /// that knows no users calls its one `default`. Not for [`from_pool`](RedisSandboxExecutionGuard::from_pool).
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Credentials {
            user: user.into(),
            password: password.into(),
        });
        self
    }

    /// The database, instead of the address's. Default 0, the only one that a cluster has. Not for
    /// [`from_pool`](RedisSandboxExecutionGuard::from_pool).
    pub const fn database(mut self, database: i64) -> Self {
        self.database = Some(database);
        self
    }

    /// The most connections that operations use at the same moment, to each master in a cluster. Waiting threads
    /// hold none, so a few serve hundreds of threads. Default 8, at least 1. A pool passed to
    /// [`from_pool`](RedisSandboxExecutionGuard::from_pool) keeps its own size.
    pub const fn pool_size(mut self, size: u32) -> Self {
        self.pool_size = size;
        self
    }

    /// How waiting threads learn that a slot has come free. Default [`Wakeups::Tracking`].
    pub const fn wakeups(mut self, wakeups: Wakeups) -> Self {
        self.wakeups = wakeups;
        self
    }

    /// Numbers the leases of each slot, so that storage can refuse a holder whose lease was lost. Entering and
    /// handing over then run a script that also touches the slot's counter. Default off.
    pub const fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Whether the guard may end its own connections at the server (`CLIENT KILL`) when a command on them
    /// got no answer: that is how a slot is freed for good of a command that is still under way. Switch it
    /// off where a proxy shares connections between clients; then [`ghost_window`](Self::ghost_window)
    /// applies. Default on.
    pub const fn kill_unanswered(mut self, kill: bool) -> Self {
        self.kill_unanswered = kill;
        self
    }

    /// How long a command that got no answer is thought to be under way, where its connection cannot be
    /// ended at the server. So long the guard goes on freeing the slot of it. Default 60 s.
    pub const fn ghost_window(mut self, window: Duration) -> Self {
        self.ghost_window = window;
        self
    }

    /// How many replicas must have a grant, a renewal or a hand-over before it counts: each is followed by
    /// `WAIT`, within the operation timeout. An entry that too few replicas acknowledge fails as transient and
    /// leaves the slot free; a renewal that they do not acknowledge does not prolong the lease. Only a number not
    /// less than that of the replicas which may become the master keeps leases through a failover; fewer make
    /// their loss less likely. [`build`](Self::build) warns if fewer are connected. Default 0: none.
    pub const fn min_replicas(mut self, replicas: u32) -> Self {
        self.min_replicas = replicas;
        self
    }

    /// The certificates, in PEM, of the authorities whose word counts for the server's certificate, instead of
    /// those that the operating system trusts. With feature `tls-rustls`, for `rediss://` addresses.
    #[cfg(feature = "tls-rustls")]
    pub fn tls_ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca_certificate = Some(pem.into());
        self
    }

    /// The certificate that the guard shows to the server, with its intermediates if there are any, and its
    /// private key, both in PEM. With feature `tls-rustls`, for `rediss://` addresses whose server asks for one.
    #[cfg(feature = "tls-rustls")]
    pub fn tls_client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client = Some(ClientPem {
            certificate: certificate.into(),
            key: key.into(),
        });
        self
    }

    /// Connects and makes the guard, within the operation timeout.
    ///
    /// # Errors
    ///
    /// - [`ConfigError::InvalidSetting`] names the setting and the limit; an address that cannot be read is
    ///   the setting `address`;
    /// - [`ConfigError::Connect`] when the server cannot be reached, is none, or does not let us in;
    /// - [`ConfigError::Thread`] when a thread of the guard cannot be started.
    pub fn build(self) -> Result<RedisSandboxExecutionGuard, ConfigError> {
        let capabilities = RedisStore::capabilities(self.fencing, self.wakeups);
        self.config.check(&capabilities)?;
        let config = self.config.clone();
        let (source, settings) = self.parts()?;
        let unanswered = Arc::clone(&settings.common.unanswered);
        let replicas = settings.min_replicas;
        let topology = source.open(settings)?;
        let store = RedisStore::new(topology, unanswered, capabilities, replicas);
        Ok(RedisSandboxExecutionGuard {
            guard: LeaseGuard::new(store, &config)?,
        })
    }

    /// Makes what opens the connections of a pool, for [`from_pool`](RedisSandboxExecutionGuard::from_pool). Of the
    /// settings, those of the address, the credentials, the database and TLS count, and the operation timeout, within
    /// which each connection is opened. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] names the setting and the limit; only one server that has an address has such a
    /// pool.
    pub fn connection_manager(self) -> Result<RedisConnectionManager, ConfigError> {
        let (source, settings) = self.parts()?;
        source.manager(&settings)
    }

    fn parts(self) -> Result<(Box<dyn Source>, Settings), ConfigError> {
        if self.pool_size == 0 {
            return Err(ConfigError::setting(
                "pool_size",
                "0 is too small, the minimum is 1",
            ));
        }
        let source = self.source.map_err(|error| {
            ConfigError::setting(
                "address",
                format!("it is not of the form {FORMS}{}", complaint(&error)),
            )
        })?;
        let timeout = self.config.operation_timeout;
        let settings = Settings {
            credentials: self.credentials,
            database: self.database,
            pool_size: self.pool_size,
            min_replicas: self.min_replicas,
            #[cfg(feature = "tls-rustls")]
            tls: self.tls,
            common: Common {
                wakeups: self.wakeups,
                operation_timeout: timeout,
                grace: self.config.shutdown_grace.unwrap_or(timeout),
                unanswered: Arc::new(Unanswered::new(self.kill_unanswered, self.ghost_window)),
                subscribers: Arc::default(),
            },
        };
        Ok((source, settings))
    }
}

impl fmt::Debug for RedisGuardBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match &self.source {
            Ok(source) => source.shown(self.database),
            Err(_) => "(none)".to_owned(),
        };
        f.debug_struct("RedisGuardBuilder")
            .field("address", &address)
            .field("config", &self.config)
            .field("pool_size", &self.pool_size)
            .field("wakeups", &self.wakeups)
            .field("fencing", &self.fencing)
            .field("ghost_window", &self.ghost_window)
            .field("kill_unanswered", &self.kill_unanswered)
            .field("min_replicas", &self.min_replicas)
            .finish_non_exhaustive()
    }
}
