//! Opening sessions.

use std::io;
use std::time::Duration;

use guard_core::StoreError;
use guard_session::{Dial, Opener, Place, Target};
use tokio_postgres::config::Host;
use tokio_postgres::{Config, NoTls};

use crate::error::classify;
use crate::line::Line;
use crate::session::{Backends, PostgresSession};
use crate::timeouts::{
    CONNECT_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, USER_TIMEOUT,
};

/// The thread that moves bytes.
pub(crate) const THREAD_NAME: &str = "guard-postgres";

/// Where a server listens unless its address says otherwise.
const DEFAULT_PORT: u16 = 5432;

/// A PostgreSQL database: how its sessions are opened.
pub struct Postgres {
    /// Whose places are left out.
    config: Config,
    /// Protects the identities of the open sessions: two with the same one share a backend.
    backends: Backends,
}

impl Postgres {
    pub(crate) fn opener(config: &Config, timeout: Duration) -> io::Result<Opener<Self>> {
        let this = Self {
            config: without_places(config),
            backends: Backends::default(),
        };
        Opener::start(THREAD_NAME, this, places(config), timeout)
    }
}

impl Dial for Postgres {
    type Session = PostgresSession;

    /// Less than any of the times above: who has not heard for so long from the server may not count on it any more.
    const SILENCE: Duration = Duration::from_secs(20);

    async fn dial(&self, target: &Target) -> Result<PostgresSession, StoreError> {
        let mut config = self.config.clone();
        match target {
            Target::Address(address) => {
                config.host(address.ip().to_string()).port(address.port());
            }
            Target::Socket(folder, port) => {
                #[cfg(unix)]
                config.host_path(folder);
                config.port(port.unwrap_or(DEFAULT_PORT));
            }
        }
        let connected = config.connect(NoTls).await;
        let (client, connection) =
            connected.map_err(|error| classify(&format!("connecting to {target}"), error))?;
        let moving = tokio::spawn(async move {
            // Whoever uses the client is told, too.
            if let Err(error) = connection.await {
                log::debug!(target: guard_core::LOG_TARGET, "a connection has ended: {error}");
            }
        });
        PostgresSession::begin(Line::new(client, moving.abort_handle()), &self.backends).await
    }
}

/// Where the servers of a configuration may be.
pub(crate) fn places(config: &Config) -> Vec<Place> {
    let (hosts, numbers, ports) = (
        config.get_hosts(),
        config.get_hostaddrs(),
        config.get_ports(),
    );
    let place = |index: usize| {
        let port = ports
            .get(index)
            .or(ports.first())
            .copied()
            .unwrap_or(DEFAULT_PORT);
        match (numbers.get(index), hosts.get(index)) {
            (Some(number), _) => Some(Place::Host(number.to_string(), port)),
            (None, Some(Host::Tcp(name))) => Some(Place::Host(name.clone(), port)),
            #[cfg(unix)]
            (None, Some(Host::Unix(folder))) => Some(Place::Socket(folder.clone(), Some(port))),
            (None, None) => None,
        }
    };
    (0..hosts.len().max(numbers.len()))
        .filter_map(place)
        .collect()
}

/// What a configuration says but where the server is: that is added to for each attempt.
fn without_places(config: &Config) -> Config {
    let mut bare = Config::new();
    if let Some(user) = config.get_user() {
        bare.user(user);
    }
    if let Some(password) = config.get_password() {
        bare.password(password);
    }
    if let Some(name) = config.get_dbname() {
        bare.dbname(name);
    }
    if let Some(options) = config.get_options() {
        bare.options(options);
    }
    if let Some(name) = config.get_application_name() {
        bare.application_name(name);
    }
    bare.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES)
        .tcp_user_timeout(USER_TIMEOUT);
    bare
}
