//! Opening a connection within a budget.
//!
//! The client library bounds each step of a connection's opening, not all of them together: every address
//! of a host and every answer of the handshake may take the whole timeout. So the host's addresses are
//! tried one by one here, with a share of the time each, and the handshake is made of commands of ours.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

use guard_core::{Budget, StoreError};
use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use crate::connector::{Known, Live};
use crate::error::{classify, no_tls, out_of_time};
use crate::session::{Failure, Session};
use crate::socket::open_within;
use crate::unanswered::Identity;

const CONNECTING: &str = "connecting";

/// Opens a connection, authenticates, selects the database, and learns by what the server knows it. Only the
/// resolution of a host's name is not bounded: the operating system offers no way.
pub(crate) fn dial(server: &Arc<ConnectionInfo>, budget: Budget) -> Result<Live, StoreError> {
    let info = server.as_ref();
    let mut connection = open(info, budget)?;
    let mut session = Session::new(&mut connection, budget);
    let redis = info.redis_settings();
    if let Some(password) = redis.password() {
        let mut auth = redis::cmd("AUTH");
        if let Some(user) = redis.username() {
            auth.arg(user);
        }
        auth.arg(password);
        introduce(info, "authenticating", || session.call::<()>(&auth))?;
    }
    if redis.db() != 0 {
        let select = redis::cmd("SELECT").arg(redis.db()).to_owned();
        introduce(info, "selecting the database", || {
            session.call::<()>(&select)
        })?;
    }
    let identity = introduce(info, CONNECTING, || Identity::ask(&mut session, server))?;
    let since = Instant::now();
    Ok(Live {
        connection,
        known: Known { since, identity },
        timeout: None,
    })
}

/// A step of the handshake with a server of which little is known. The client library leaves that of TLS to the first
/// command, so a server that does not understand it is one that does not answer.
fn introduce<T>(
    info: &ConnectionInfo,
    step: &str,
    call: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, StoreError> {
    shake_hands(step, || {
        call().map_err(|failure| match failure {
            Failure::Connection(error) if error.is_timeout() && is_tls(info) => {
                Failure::NotSent(no_tls(step, error))
            }
            failure => failure,
        })
    })
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

/// A step of the handshake. No command of an operation has been sent yet, so nothing is unknown.
pub(crate) fn shake_hands<T>(
    step: &str,
    call: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, StoreError> {
    call().map_err(|failure| match failure {
        Failure::Answer(error) | Failure::Connection(error) => classify(step, error),
        failure => failure.into_store_error(step),
    })
}

/// One of `shares` equal parts of the time that is left.
pub(crate) fn share(budget: Budget, shares: usize) -> Budget {
    let shares = u32::try_from(shares).unwrap_or(u32::MAX).max(1);
    Budget::new(budget.remaining() / shares)
}

fn open(info: &ConnectionInfo, budget: Budget) -> Result<Connection, StoreError> {
    let (host, port) = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host, port),
        ConnectionAddr::Unix(path) => {
            let info = info.clone();
            let open = move || open_at(info.addr().clone(), &info, budget, 1);
            return open_within(budget, path, open)?;
        }
        other => return open_at(other.clone(), info, budget, 1),
    };
    let addresses: Vec<SocketAddr> = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| StoreError::transient("resolving the host's name").with_source(error))?
        .collect();
    if is_tls(info) {
        // The server's certificate must carry the host's name, so the library gets that, and tries the addresses
        // itself, each for the same time.
        return open_at(info.addr().clone(), info, budget, addresses.len().max(1));
    }
    let mut failure = StoreError::transient("the host's name has no addresses");
    for (index, address) in addresses.iter().enumerate() {
        let shares = addresses.len() - index;
        let addr = ConnectionAddr::Tcp(address.ip().to_string(), address.port());
        match open_at(addr, info, budget, shares) {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Opens a connection to one address within a share of what is left of the budget.
fn open_at(
    addr: ConnectionAddr,
    info: &ConnectionInfo,
    budget: Budget,
    shares: usize,
) -> Result<Connection, StoreError> {
    let timeout = share(budget, shares).remaining();
    if timeout.is_zero() {
        return Err(out_of_time(CONNECTING));
    }
    // Without credentials, database and library name the library's own handshake sends nothing.
    let bare = info
        .clone()
        .set_addr(addr)
        .set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name());
    Client::open(bare)
        .and_then(|client| client.get_connection_with_timeout(timeout))
        .map_err(|error| classify(CONNECTING, error))
}
