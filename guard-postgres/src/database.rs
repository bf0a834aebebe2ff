//! Opening sessions.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, StoreError};
use guard_session::{Database, Reactor, SessionId};
use parking_lot::Mutex;
use tokio_postgres::{Config, NoTls};

use crate::error::classify;
use crate::session::PostgresSession;

/// The thread that moves bytes.
pub(crate) const THREAD_NAME: &str = "guard-postgres";

/// Both ends notice within half a minute that the other is gone: after this time without a word they ask, …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// … so often …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// … until so many questions went unanswered.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent data may go unacknowledged.
const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// How long the server bears with a session that asks for nothing; a held one is asked every few seconds. Whatever
/// stands in between may answer for a client that is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// Less than any of these: who has not heard for so long from the server may not count on it any more.
const SILENCE: Duration = Duration::from_secs(20);

/// The identities of the open sessions.
pub(crate) type Backends = Arc<Mutex<HashSet<SessionId>>>;

/// A PostgreSQL database.
pub struct Postgres {
    config: Config,
    reactor: Reactor,
    /// Protects the identities of the open sessions: two with the same one share a backend.
    backends: Backends,
}

impl Postgres {
    pub(crate) fn new(mut config: Config) -> io::Result<Self> {
        config
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(USER_TIMEOUT);
        Ok(Self {
            config,
            reactor: Reactor::start(THREAD_NAME)?,
            backends: Backends::default(),
        })
    }
}

impl Database for Postgres {
    type Session = PostgresSession;

    fn silence(&self) -> Duration {
        SILENCE
    }

    fn open(&self, budget: Budget) -> Result<PostgresSession, StoreError> {
        const CONNECTING: &str = "connecting";
        let mut config = self.config.clone();
        config.connect_timeout(budget.remaining());
        let connecting = async move { config.connect(NoTls).await };
        let connected = self.reactor.connect(CONNECTING, connecting, budget)?;
        let (client, connection) = connected.map_err(|error| classify(CONNECTING, error))?;
        self.reactor.spawn(async move {
            // Whoever uses the client is told, too.
            if let Err(error) = connection.await {
                log::debug!(target: guard_core::LOG_TARGET, "a connection has ended: {error}");
            }
        });
        PostgresSession::begin(client, &self.backends, budget)
    }
}

/// What every session sets at the server, where the server knows the setting: it notices a client that is dead or
/// says nothing, and ends no statement because it takes long.
pub(crate) fn settings(lock_timeout: Duration) -> String {
    let settings = [
        ("tcp_keepalives_idle", KEEPALIVE_IDLE.as_secs().into()),
        (
            "tcp_keepalives_interval",
            KEEPALIVE_INTERVAL.as_secs().into(),
        ),
        ("tcp_keepalives_count", u128::from(KEEPALIVE_RETRIES)),
        ("tcp_user_timeout", USER_TIMEOUT.as_millis()),
        (
            "client_connection_check_interval",
            KEEPALIVE_IDLE.as_millis(),
        ),
        ("idle_session_timeout", IDLE_TIMEOUT.as_millis()),
        ("statement_timeout", 0),
        ("transaction_timeout", 0),
        ("lock_timeout", lock_timeout.as_millis()),
    ];
    let values = settings.map(|(name, value)| format!("('{name}', '{value}')"));
    format!(
        "SELECT set_config(name, value, false) FROM (VALUES {}) AS wanted (name, value) \
         WHERE name IN (SELECT name FROM pg_settings)",
        values.join(", ")
    )
}
