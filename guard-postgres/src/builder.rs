//! The guard that users name, and its builder.

use std::error::Error as _;
use std::fmt;

use guard_core::{
    ConfigError, GuardConfig, LeaseGuard, SandboxIsolationKey, SlotName, forward_guard,
    guard_settings,
};
use guard_session::{
    DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS, Opener, SessionSettings, SessionStore, check_url,
    is_host, session_settings,
};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::database::{Postgres, THREAD_NAME, places};
use crate::number::lock_number;
use crate::owner;

/// What an address looks like.
const FORM: &str = "the form is postgres://[user[:password]@]host[:port][/database][?option=value], with what is special \
                    in a password percent-encoded, or host=… user=… dbname=…";

/// What is shown of an address that leads nowhere.
const NOWHERE: &str = "(none)";

/// Leases as advisory locks in PostgreSQL.
pub type PostgresStore = SessionStore<Opener<Postgres>>;

/// A guard whose slots are session advisory locks in PostgreSQL.
///
/// Clones share everything.
#[derive(Clone, Debug)]
pub struct PostgresSandboxExecutionGuard {
    guard: LeaseGuard<PostgresStore>,
}

forward_guard!(impl for PostgresSandboxExecutionGuard, guard);

impl PostgresSandboxExecutionGuard {
    /// Starts building a guard for the database at `address`: a URL such as `postgres://user@host/database`, or
    /// `host=… user=… dbname=…`.
    pub fn builder(address: &str) -> PostgresGuardBuilder {
        let unambiguous = check_url(address).map_err(|reason| format!("{reason}; {FORM}"));
        let read = || address.parse().map_err(|error| complaint(&error));
        PostgresGuardBuilder::new(unambiguous.and_then(|()| read()))
    }

    /// Starts building a guard for the database that `config` connects to.
    pub fn with_config(config: Config) -> PostgresGuardBuilder {
        PostgresGuardBuilder::new(Ok(config))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &PostgresStore {
        self.guard.store()
    }

    /// The name of `key`'s slot.
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        self.guard.slot(key)
    }

    /// The number of `key`'s advisory lock.
    #[must_use]
    pub fn lock_number(&self, key: &SandboxIsolationKey) -> i64 {
        lock_number(&self.slot(key))
    }
}

/// Builds a [`PostgresSandboxExecutionGuard`].
#[must_use = "a builder does nothing until `build`"]
pub struct PostgresGuardBuilder {
    config: GuardConfig,
    /// What is wrong with the address if it could not be read.
    database: Result<Config, String>,
    pool_size: u32,
    wait_connections: u32,
}

impl PostgresGuardBuilder {
    fn new(database: Result<Config, String>) -> Self {
        Self {
            config: GuardConfig::default(),
            database,
            pool_size: DEFAULT_POOL_SIZE,
            wait_connections: DEFAULT_WAIT_CONNECTIONS,
        }
    }

    guard_settings!();
    session_settings!();

    /// Connects and makes the guard, within the operation timeout.
    ///
    /// # Errors
    ///
    /// - [`ConfigError::InvalidSetting`] names the setting and the limit; an address that cannot be read is
    ///   the setting `address`;
    /// - [`ConfigError::Connect`] when the server cannot be reached, is none, does not let us in, or is behind
    ///   a pooler that shares its backends;
    /// - [`ConfigError::Thread`] when a thread of the guard cannot be started.
    pub fn build(self) -> Result<PostgresSandboxExecutionGuard, ConfigError> {
        self.config
            .check(&PostgresStore::capabilities(self.wait_connections))?;
        let settings = SessionSettings {
            pool_size: self.pool_size,
            wait_connections: self.wait_connections,
            operation_timeout: self.config.operation_timeout,
        };
        settings.check()?;
        let wrong = |reason| ConfigError::setting("address", reason);
        let mut database = self.database.map_err(wrong)?;
        check(&database).map_err(|reason| wrong(format!("{reason}; {FORM}")))?;
        if database.get_ssl_mode() == SslMode::Require {
            let reason = "it asks for TLS (`sslmode=require`), which is to come";
            return Err(wrong(reason.to_owned()));
        }
        if let Some(owner) = &self.config.owner {
            database.application_name(owner::encoded(owner));
        }
        let address = shown(&database);
        let postgres = Postgres::opener(&database, self.config.operation_timeout)
            .map_err(|error| ConfigError::thread(THREAD_NAME, error))?;
        let store = SessionStore::connect(postgres, settings, address)?;
        Ok(PostgresSandboxExecutionGuard {
            guard: LeaseGuard::new(store, &self.config)?,
        })
    }
}

/// What is wrong with an address. Only fixed words of the client library are told: others may be part of a password
/// that was not escaped.
fn complaint(error: &tokio_postgres::Error) -> String {
    let cause = error.source().map(ToString::to_string);
    match cause.filter(|cause| cause.starts_with("invalid value for option `")) {
        Some(cause) => format!("it has an {cause}; {FORM}"),
        None => format!("it cannot be read, or has an option that is not known; {FORM}"),
    }
}

/// Whether an address that could be read leads somewhere. What is no host is not looked up, and what looks like an
/// address in the place of a part of one is not sent: the server's answer would show it.
fn check(config: &Config) -> Result<(), &'static str> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("it names no host");
    }
    let (hosts, numbers) = (config.get_hosts().len(), config.get_hostaddrs().len());
    if hosts > 0 && numbers > 0 && hosts != numbers {
        return Err("it has another number of `hostaddr` than of `host`");
    }
    if config.get_ports().len() > 1 && config.get_ports().len() != hosts.max(numbers) {
        return Err("it has another number of ports than of hosts");
    }
    let is_place = |host: &Host| match host {
        Host::Tcp(name) => is_host(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    if !config.get_hosts().iter().all(is_place) {
        return Err("a host in it is none");
    }
    let parts = [config.get_user(), config.get_dbname()];
    if parts.into_iter().flatten().any(|part| part.contains("://")) {
        return Err("it has another address inside");
    }
    Ok(())
}

/// Where an address leads, without credentials.
fn shown(config: &Config) -> String {
    if check(config).is_err() {
        return NOWHERE.to_owned();
    }
    let places: Vec<_> = places(config).iter().map(ToString::to_string).collect();
    format!("postgres://{}", places.join(","))
}

impl fmt::Debug for PostgresGuardBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self
            .database
            .as_ref()
            .map_or_else(|_| NOWHERE.to_owned(), shown);
        f.debug_struct("PostgresGuardBuilder")
            .field("address", &address)
            .field("config", &self.config)
            .field("pool_size", &self.pool_size)
            .field("wait_connections", &self.wait_connections)
            .finish()
    }
}
