//! Opening a connection within a budget.
//!
//! The host's addresses are tried one by one, with a share of the time each, from the socket to the last answer of the
//! handshake: an address at which nobody answers costs no more than that.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Instant;

use guard_core::{Budget, StoreError};
#[cfg(feature = "tls-rustls")]
use redis::{Client, RedisConnectionInfo};
use redis::{Cmd, ConnectionAddr, RedisError, cmd};
use socket2::SockAddr;

use crate::answer::Done;
use crate::endpoint::Endpoint;
#[cfg(feature = "tls-rustls")]
use crate::error::out_of_time;
use crate::error::{Cause, classify, is_vague, may_be_a_farewell};
use crate::failure::Failure;
use crate::live::{Known, Live};
use crate::session::{Mastery, Session};
use crate::socket::BoundedSocket;
#[cfg(feature = "tls-rustls")]
use crate::tls;
use crate::unanswered::Identity;
use crate::wire::{Connection, OwnWire, Stream};

const CONNECTING: &str = "connecting";
const AUTHENTICATING: &str = "authenticating";

/// Opens a connection, authenticates, selects the database, and learns by what the server knows it. Only the
/// resolution of a host's name is not bounded: the operating system offers no way.
pub(crate) fn dial(server: &Arc<Endpoint>, budget: Budget) -> Result<Live, StoreError> {
    #[cfg(feature = "tls-rustls")]
    if server.is_tls() && server.tls().is_none() {
        return introduce(server, open_by_library(server, budget)?, budget);
    }
    let addresses = addresses(server.addr())?;
    let mut failure = StoreError::transient("the host's name has no addresses");
    for (index, address) in addresses.iter().enumerate() {
        let part = share(budget, addresses.len() - index);
        let opened = open(server, address, part);
        match opened.and_then(|connection| introduce(server, connection, part)) {
            Err(error) if error.is_transient() => failure = error,
            result => return result,
        }
    }
    Err(failure)
}

fn addresses(addr: &ConnectionAddr) -> Result<Vec<SockAddr>, StoreError> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            (host.as_str(), *port)
                .to_socket_addrs()
                .map(|addresses| addresses.map(SockAddr::from).collect())
                .map_err(|error| {
                    StoreError::transient("resolving the host's name").with_source(error)
                })
        }
        ConnectionAddr::Unix(path) => match SockAddr::unix(path) {
            Ok(address) => Ok(vec![address]),
            Err(error) => {
                let no_path = "the path is none of a Unix socket";
                Err(StoreError::permanent(no_path).with_source(error))
            }
        },
        _ => Err(StoreError::permanent("an address of an unknown kind")),
    }
}

fn open(server: &Endpoint, address: &SockAddr, budget: Budget) -> Result<Connection, StoreError> {
    let settings = server.info().tcp_settings();
    let socket = BoundedSocket::connect(address, settings, server.sockets(), budget)
        .map_err(|error| classify(CONNECTING, error.into()))?;
    let stream = secure(server, socket)?;
    Ok(Connection::Own(Box::new(OwnWire::new(stream))))
}

#[cfg(feature = "tls-rustls")]
fn secure(server: &Endpoint, socket: BoundedSocket) -> Result<Stream, StoreError> {
    match (server.addr(), server.tls()) {
        (ConnectionAddr::TcpTls { host, .. }, Some(config)) => {
            tls::shake_hands(host, config, socket)
        }
        _ => Ok(Stream::Plain(socket)),
    }
}

#[cfg(not(feature = "tls-rustls"))]
fn secure(server: &Endpoint, socket: BoundedSocket) -> Result<Stream, StoreError> {
    if matches!(server.addr(), ConnectionAddr::TcpTls { .. }) {
        let reason = "TLS needs the feature `tls-rustls`";
        return Err(StoreError::permanent(reason));
    }
    Ok(Stream::Plain(socket))
}

/// By the client library, which alone can read the certificates of a client of the user's. It tries the addresses
/// itself, each for the same time.
#[cfg(feature = "tls-rustls")]
fn open_by_library(server: &Endpoint, budget: Budget) -> Result<Connection, StoreError> {
    let count = addresses(server.addr())?.len().max(1);
    let timeout = share(budget, count).remaining();
    if timeout.is_zero() {
        return Err(out_of_time(CONNECTING));
    }
    // Without credentials, database and library name the library's own handshake sends nothing.
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    Client::open(server.info().clone().set_redis_settings(settings))
        .and_then(|client| client.get_connection_with_timeout(timeout))
        .map(Connection::Clients)
        .map_err(|error| classify(CONNECTING, error))
}

/// Tells the server who we are and what we want, and asks who we are to it.
fn introduce(
    server: &Arc<Endpoint>,
    mut connection: Connection,
    budget: Budget,
) -> Result<Live, StoreError> {
    let since = Instant::now();
    let mut session = Session::new(&mut connection, budget);
    let settings = server.settings();
    if let Some(password) = settings.password() {
        let mut auth = cmd("AUTH");
        if let Some(user) = settings.username() {
            auth.arg(user);
        }
        auth.arg(password);
        ask(&mut session, AUTHENTICATING, &auth, Some(password))?;
    }
    if settings.db() != 0 {
        let select = cmd("SELECT").arg(settings.db()).to_owned();
        ask(&mut session, "selecting the database", &select, None)?;
    }
    let identity = shake_hands(CONNECTING, || Identity::ask(&mut session, server))?;
    Ok(Live {
        connection,
        known: Known::new(since, identity),
        mastery: Mastery::default(),
    })
}

/// A step of the handshake that the server may refuse for good.
fn ask(
    session: &mut Session<'_>,
    step: &str,
    command: &Cmd,
    secret: Option<&str>,
) -> Result<(), StoreError> {
    let error = match session.call::<Done>(command) {
        Err(Failure::Answer(error)) => error,
        result => return shake_hands(step, || result).map(drop),
    };
    // A server may say why it does not want another client now in answer to whatever it is asked first, and hang up.
    let refused = is_vague(&error) && !(may_be_a_farewell(&error) && session.is_hung_up());
    let told = if refused {
        refusal(step, &error)
    } else {
        classify(step, error.clone())
    };
    // Some servers repeat what they do not understand.
    Err(match secret {
        Some(secret) if error.to_string().contains(secret) => refusal(step, &error),
        _ if refused => told.with_source(Cause(error)),
        _ => told,
    })
}

fn refusal(step: &str, error: &RedisError) -> StoreError {
    let code = error.code().unwrap_or("an error");
    StoreError::permanent(format!("{step}: the server answered {code}"))
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
