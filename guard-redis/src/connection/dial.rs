//! Opening a connection within a budget.
//!
//! The host's addresses are tried one by one, with a share of the time each, from the socket to the last answer of the
//! handshake: an address at which nobody answers costs no more than that.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Instant;

use guard_core::{Budget, StoreError};
use redis::{Cmd, ConnectionAddr, RedisError, cmd};
use socket2::SockAddr;

use crate::connection::endpoint::Endpoint;
use crate::connection::exchange::Exchange;
use crate::connection::identity::{Identity, Run};
use crate::connection::open_connection::OpenConnection;
use crate::connection::socket::BoundedSocket;
#[cfg(feature = "tls-rustls")]
use crate::connection::tls;
use crate::connection::wire::{Stream, Wire};
use crate::protocol::answer::Done;
use crate::protocol::error::{Cause, classify, is_not_allowed, is_vague, may_be_a_farewell};
use crate::protocol::failure::Failure;

const CONNECTING: &str = "connecting";
const AUTHENTICATING: &str = "authenticating";

/// Opens a connection, authenticates, selects the database, and learns by what the server knows it. Only the
/// resolution of a host's name is not bounded: the operating system offers no way.
pub(crate) fn dial(server: &Arc<Endpoint>, budget: Budget) -> Result<OpenConnection, StoreError> {
    in_turn(&addresses(server.addr())?, budget, |address, part| {
        introduce(server, open(server, address, part)?, part)
    })
}

/// Tries the addresses in order, each with its share of the time, until one can be used or refuses for good.
fn in_turn<A, T>(
    addresses: &[A],
    budget: Budget,
    attempt: impl Fn(&A, Budget) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut failure = StoreError::transient("the host's name has no addresses");
    for (index, address) in addresses.iter().enumerate() {
        match attempt(address, share(budget, addresses.len() - index)) {
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

fn open(server: &Endpoint, address: &SockAddr, budget: Budget) -> Result<Wire, StoreError> {
    let settings = server.info().tcp_settings();
    let socket = BoundedSocket::connect(address, settings, server.sockets(), budget)
        .map_err(|error| classify(CONNECTING, error.into()))?;
    Ok(Wire::new(secure(server, socket)?))
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

/// Tells the server who we are and what we want, and asks who we are to it.
fn introduce(
    server: &Arc<Endpoint>,
    wire: Wire,
    budget: Budget,
) -> Result<OpenConnection, StoreError> {
    let mut connection = OpenConnection::new(wire);
    let exchange = &mut Exchange::on(&mut connection, budget);
    let settings = server.settings();
    if let Some(password) = settings.password() {
        let mut auth = cmd("AUTH");
        if let Some(user) = settings.username() {
            auth.arg(user);
        }
        auth.arg(password);
        ask(exchange, AUTHENTICATING, &auth, Some(password))?;
    }
    if settings.db() != 0 {
        let select = cmd("SELECT").arg(settings.db()).to_owned();
        ask(exchange, "selecting the database", &select, None)?;
    }
    let identity = shake_hands(CONNECTING, || identify(exchange, server))?;
    connection.answered = Instant::now();
    connection.identity = identity;
    Ok(connection)
}

/// Asks by what the server knows the connection; `None` if it does not tell.
fn identify(
    exchange: &mut Exchange<'_>,
    server: &Arc<Endpoint>,
) -> Result<Option<Identity>, Failure> {
    let info = match exchange.call::<String>(&Identity::question()) {
        Ok(info) => info,
        // A server that has too many clients says so in answer to whatever it is asked first, and hangs up.
        Err(Failure::Answer(error)) if is_not_allowed(&error) => {
            return if may_be_a_farewell(&error) && exchange.is_hung_up() {
                Err(Failure::Answer(error))
            } else {
                Ok(None)
            };
        }
        Err(failure) => return Err(failure),
    };
    Ok(Identity::parse(&info, server, current_run(exchange)?))
}

/// Asks for the run of the server; `None` if it does not tell.
pub(crate) fn current_run(exchange: &mut Exchange<'_>) -> Result<Option<Run>, Failure> {
    match exchange.call::<String>(&Run::question()) {
        Ok(info) => Ok(Run::parse(&info)),
        Err(Failure::Answer(error)) if is_not_allowed(&error) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A step of the handshake that the server may refuse for good.
fn ask(
    exchange: &mut Exchange<'_>,
    step: &str,
    command: &Cmd,
    secret: Option<&str>,
) -> Result<(), StoreError> {
    let error = match exchange.call::<Done>(command) {
        Err(Failure::Answer(error)) => error,
        result => return shake_hands(step, || result).map(drop),
    };
    // A server may say why it does not want another client now in answer to whatever it is asked first, and hang up.
    let refused = is_vague(&error) && !(may_be_a_farewell(&error) && exchange.is_hung_up());
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

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    const TIME: Duration = Duration::from_secs(3);

    #[test]
    fn a_silent_address_leaves_time_for_the_next_ones() {
        let answered = in_turn(&[1, 2, 3], Budget::new(TIME), |address, part| {
            if *address == 3 {
                return Ok(part.remaining());
            }
            thread::sleep(part.remaining());
            Err(StoreError::transient("silent"))
        });
        // A third of the time, less what a noisy machine takes.
        assert!(answered.unwrap() > TIME / 6);
    }

    #[test]
    fn an_address_that_refuses_for_good_is_the_last() {
        let answered: Result<(), _> = in_turn(&[1, 2], Budget::new(TIME), |address, _| {
            assert_eq!(*address, 1);
            Err(StoreError::permanent("a wrong password"))
        });
        assert!(!answered.unwrap_err().is_transient());
    }
}
