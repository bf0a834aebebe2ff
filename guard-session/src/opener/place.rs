//! Where a server may be.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::thread;

use guard_core::StoreError;
use tokio::sync::oneshot;

/// The thread that waits for the system's answer about a name: nothing but that system bounds how long.
const THREAD_NAME: &str = "guard-lookup";

/// A part of an address: where a server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host by its name or number (of IPv6 without brackets), and a port.
    Host(String, u16),
    /// A socket of this machine, with what the database makes of the port.
    Socket(PathBuf, Option<u16>),
}

/// One of what a place turns out to be: a name may have several addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address of a host.
    Address(SocketAddr),
    /// A socket of this machine.
    Socket(PathBuf, Option<u16>),
}

impl Place {
    pub(super) async fn targets(&self) -> Result<Vec<Target>, StoreError> {
        let (host, port) = match self {
            Self::Socket(path, port) => return Ok(vec![Target::Socket(path.clone(), *port)]),
            Self::Host(host, port) => (host, *port),
        };
        if let Ok(number) = host.parse::<IpAddr>() {
            return Ok(vec![Target::Address(SocketAddr::new(number, port))]);
        }
        let mut found = look_up(host.clone(), port).await.map_err(|error| {
            StoreError::transient(format!("looking up the host {host:?} failed")).with_source(error)
        })?;
        found.dedup();
        Ok(found.into_iter().map(Target::Address).collect())
    }
}

/// On a thread of its own, so that its failure to start is an error, and nobody waits for its end.
async fn look_up(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (tell, told) = oneshot::channel();
    thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs();
            // Nobody may wait any more.
            let _ = tell.send(found.map(Iterator::collect));
        })?;
    told.await.map_err(io::Error::other)?
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path, port) => socket(f, path, *port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path, port) => socket(f, path, *port),
        }
    }
}

fn socket(f: &mut fmt::Formatter<'_>, path: &std::path::Path, port: Option<u16>) -> fmt::Result {
    f.write_str(&guard_core::printable(&path.to_string_lossy()))?;
    port.map_or(Ok(()), |port| write!(f, " port {port}"))
}
