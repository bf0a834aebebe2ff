//! Opening sessions.

use std::io;
use std::time::Duration;

use guard_core::{Budget, StoreError};
use guard_session::{Database, Reactor};
use mysql_async::{Conn, Opts, OptsBuilder};

use crate::error::classify;
use crate::session::MySqlSession;

/// The thread that moves bytes.
pub(crate) const THREAD_NAME: &str = "guard-mysql";

/// Neither end waits longer than half a minute for the other: so soon the client's system asks a silent server, …
const KEEPALIVE: Duration = Duration::from_secs(10);
/// … and so long the server bears with a session that asks for nothing. A held one is asked every few seconds.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Less than that: who has not heard for so long from the server may not count on it any more.
const SILENCE: Duration = Duration::from_secs(20);

/// The longest answer; ours are short.
const MAX_PACKET: usize = 1 << 20;

/// A MySQL or MariaDB server.
pub struct MySql {
    options: Opts,
    reactor: Reactor,
}

impl MySql {
    pub(crate) fn new(options: Opts) -> io::Result<Self> {
        // What is set here is not asked for: a round trip less.
        let options = OptsBuilder::from_opts(options)
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEPALIVE))
            .max_allowed_packet(Some(MAX_PACKET))
            .wait_timeout(usize::try_from(IDLE_TIMEOUT.as_secs()).ok());
        Ok(Self {
            options: options.into(),
            reactor: Reactor::start(THREAD_NAME)?,
        })
    }
}

impl Database for MySql {
    type Session = MySqlSession;

    fn silence(&self) -> Duration {
        SILENCE
    }

    fn open(&self, budget: Budget) -> Result<MySqlSession, StoreError> {
        const CONNECTING: &str = "connecting";
        let connecting = Conn::new(self.options.clone());
        let connected = self.reactor.connect(CONNECTING, connecting, budget)?;
        let connection = connected.map_err(|error| classify(CONNECTING, error))?;
        let runtime = self.reactor.handle().clone();
        MySqlSession::begin(connection, runtime, budget)
    }
}
