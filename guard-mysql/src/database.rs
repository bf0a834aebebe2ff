//! Opening sessions.

use std::io;
use std::time::Duration;

use guard_core::StoreError;
use guard_session::{Dial, Opener, Place, Target};
use mysql_async::{Conn, Opts, OptsBuilder};

use crate::error::classify;
use crate::line::Line;
use crate::session::{IDLE_TIMEOUT, MySqlSession};

/// The thread that moves bytes.
pub(crate) const THREAD_NAME: &str = "guard-mysql";

/// Neither end waits longer than half a minute for the other: so soon the client's system asks a silent server.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The longest answer; ours are short.
const MAX_PACKET: usize = 1 << 20;

/// A MySQL or MariaDB server: how its sessions are opened.
pub struct MySql {
    options: Opts,
}

impl MySql {
    pub(crate) fn opener(options: Opts, timeout: Duration) -> io::Result<Opener<Self>> {
        let places = vec![place(&options)];
        // What is set here is not asked for: a round trip less.
        let options = OptsBuilder::from_opts(options)
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEPALIVE))
            .max_allowed_packet(Some(MAX_PACKET))
            .wait_timeout(usize::try_from(IDLE_TIMEOUT.as_secs()).ok());
        let this = Self {
            options: options.into(),
        };
        Opener::start(THREAD_NAME, this, places, timeout)
    }
}

impl Dial for MySql {
    type Session = MySqlSession;

    /// Less than the server bears: who has not heard for so long from it may not count on it any more.
    const SILENCE: Duration = Duration::from_secs(20);

    async fn dial(&self, target: &Target) -> Result<MySqlSession, StoreError> {
        let options = self.options.clone();
        let options = match target {
            Target::Address(address) => OptsBuilder::from_opts(options)
                .ip_or_hostname(address.ip().to_string())
                .tcp_port(address.port())
                .into(),
            // The options have it.
            Target::Socket(..) => options,
        };
        let connected = Conn::new(options).await;
        let connection =
            connected.map_err(|error| classify(&format!("connecting to {target}"), error))?;
        MySqlSession::begin(Line::new(connection)).await
    }
}

/// Where the server of such options is.
pub(crate) fn place(options: &Opts) -> Place {
    if let Some(path) = options.socket() {
        return Place::Socket(path.into(), None);
    }
    let host = options.ip_or_hostname();
    // As a part of a URL.
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Place::Host(bare.unwrap_or(host).to_owned(), options.tcp_port())
}
