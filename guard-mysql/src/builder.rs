//! The guard that users name, and its builder.

use std::fmt;

use guard_core::{
    ConfigError, GuardConfig, LeaseGuard, SandboxIsolationKey, SlotName, forward_guard,
    guard_settings,
};
use guard_session::{
    DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS, Opener, Place, SessionSettings, SessionStore,
    check_url, is_host, session_settings,
};
use mysql_async::{Opts, OptsBuilder, UrlError};

use crate::database::{MySql, THREAD_NAME, place};
use crate::name::lock_name;
use crate::session::OWNER_ATTRIBUTE;

/// What an address looks like.
const FORM: &str = "the form is mysql://[user[:password]@]host[:port][/database][?parameter=value], with what is special in \
                    a password percent-encoded";

/// What is shown of an address that leads nowhere.
const NOWHERE: &str = "(none)";

/// Leases as named locks in MySQL or MariaDB.
pub type MySqlStore = SessionStore<Opener<MySql>>;

/// A guard whose slots are named locks (`GET_LOCK`) of sessions with a MySQL or MariaDB server.
///
/// Clones share everything.
#[derive(Clone, Debug)]
pub struct MySqlSandboxExecutionGuard {
    guard: LeaseGuard<MySqlStore>,
}

forward_guard!(impl for MySqlSandboxExecutionGuard, guard);

impl MySqlSandboxExecutionGuard {
    /// Starts building a guard for the server at `address`: a URL such as `mysql://user@host/database`.
    pub fn builder(address: &str) -> MySqlGuardBuilder {
        let unambiguous = check_url(address).map_err(|reason| format!("{reason}; {FORM}"));
        let read = || Opts::from_url(address).map_err(|error| complaint(&error));
        MySqlGuardBuilder::new(unambiguous.and_then(|()| read()))
    }

    /// Starts building a guard for the server that `options` connect to.
    pub fn with_options(options: impl Into<Opts>) -> MySqlGuardBuilder {
        MySqlGuardBuilder::new(Ok(options.into()))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &MySqlStore {
        self.guard.store()
    }

    /// The name of `key`'s slot.
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        self.guard.slot(key)
    }

    /// The name of `key`'s lock.
    #[must_use]
    pub fn lock_name(&self, key: &SandboxIsolationKey) -> String {
        lock_name(&self.slot(key))
    }
}

/// Builds a [`MySqlSandboxExecutionGuard`].
#[must_use = "a builder does nothing until `build`"]
pub struct MySqlGuardBuilder {
    config: GuardConfig,
    /// What is wrong with the address if it could not be read.
    options: Result<Opts, String>,
    pool_size: u32,
    wait_connections: u32,
}

impl MySqlGuardBuilder {
    fn new(options: Result<Opts, String>) -> Self {
        Self {
            config: GuardConfig::default(),
            options,
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
    /// - [`ConfigError::Connect`] when the server cannot be reached, is none, does not let us in, is
    ///   read-only, or is behind a proxy that shares its sessions;
    /// - [`ConfigError::Thread`] when a thread of the guard cannot be started.
    pub fn build(self) -> Result<MySqlSandboxExecutionGuard, ConfigError> {
        self.config
            .check(&MySqlStore::capabilities(self.wait_connections))?;
        let settings = SessionSettings {
            pool_size: self.pool_size,
            wait_connections: self.wait_connections,
            operation_timeout: self.config.operation_timeout,
        };
        settings.check()?;
        let wrong = |reason| ConfigError::setting("address", reason);
        let mut options = self.options.map_err(wrong)?;
        check(&options).map_err(|reason| wrong(format!("{reason}; {FORM}")))?;
        if options.ssl_opts().is_some() {
            return Err(ConfigError::setting(
                "address",
                "it asks for TLS, which is to come",
            ));
        }
        if let Some(owner) = &self.config.owner {
            let named = OptsBuilder::from_opts(options);
            options = named.connect_attribute(OWNER_ATTRIBUTE, owner).into();
        }
        let address = shown(&options);
        let mysql = MySql::opener(options, self.config.operation_timeout)
            .map_err(|error| ConfigError::thread(THREAD_NAME, error))?;
        let store = SessionStore::connect(mysql, settings, address)?;
        Ok(MySqlSandboxExecutionGuard {
            guard: LeaseGuard::new(store, &self.config)?,
        })
    }
}

/// What is wrong with an address, without a word of it: any may be part of a password that was not escaped.
fn complaint(error: &UrlError) -> String {
    let what = match error {
        UrlError::UnsupportedScheme { .. } => "it does not begin with mysql://",
        UrlError::UnknownParameter { .. } => "it has a parameter that is not known",
        UrlError::InvalidParamValue { .. } => "a parameter in it has a value that is not legal",
        UrlError::FeatureRequired { .. } => "a parameter in it asks for what is not there",
        _ => "it cannot be read",
    };
    format!("{what}; {FORM}")
}

/// Whether an address that could be read leads somewhere. What is no host is not looked up, and what looks like an
/// address in the place of a part of one is not sent: the server's answer would show it.
fn check(options: &Opts) -> Result<(), &'static str> {
    if matches!(place(options), Place::Host(host, _) if !is_host(&host)) {
        return Err("the host in it is none");
    }
    let parts = [options.user(), options.db_name()];
    if parts.into_iter().flatten().any(|part| part.contains("://")) {
        return Err("it has another address inside");
    }
    Ok(())
}

/// Where an address leads, without credentials.
fn shown(options: &Opts) -> String {
    if check(options).is_err() {
        return NOWHERE.to_owned();
    }
    format!("mysql://{}", place(options))
}

impl fmt::Debug for MySqlGuardBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self
            .options
            .as_ref()
            .map_or_else(|_| NOWHERE.to_owned(), shown);
        f.debug_struct("MySqlGuardBuilder")
            .field("address", &address)
            .field("config", &self.config)
            .field("pool_size", &self.pool_size)
            .field("wait_connections", &self.wait_connections)
            .finish()
    }
}
