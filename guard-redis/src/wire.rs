//! Connections: commands out, answers in, within a budget. The client library writes and reads what is said on them.

use std::io::{Read, Write};
use std::time::Duration;

use guard_core::Budget;
use redis::{Parser, RedisResult, Value};
#[cfg(feature = "tls-rustls")]
use rustls::{ClientConnection, StreamOwned};

use crate::socket::BoundedSocket;

/// What a command and its answer go over.
pub(crate) trait Wire {
    /// Sends a packed command.
    fn send(&mut self, command: &[u8], budget: Budget) -> RedisResult<()>;

    /// Reads one answer.
    fn receive(&mut self, budget: Budget) -> RedisResult<Value>;
}

/// A connection that was opened here, or one of the client library's.
pub(crate) enum Connection {
    Own(Box<OwnWire>),
    /// To where only the client library can read the certificates.
    #[cfg(feature = "tls-rustls")]
    Clients(redis::Connection),
}

impl Connection {
    /// Whether the other end has hung up, as far as is known here.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Own(wire) => wire.is_over(),
            #[cfg(feature = "tls-rustls")]
            Self::Clients(connection) => !redis::ConnectionLike::is_open(connection),
        }
    }
}

impl Wire for Connection {
    fn send(&mut self, command: &[u8], budget: Budget) -> RedisResult<()> {
        match self {
            Self::Own(wire) => wire.send(command, budget),
            #[cfg(feature = "tls-rustls")]
            Self::Clients(connection) => connection.send(command, budget),
        }
    }

    fn receive(&mut self, budget: Budget) -> RedisResult<Value> {
        match self {
            Self::Own(wire) => wire.receive(budget),
            #[cfg(feature = "tls-rustls")]
            Self::Clients(connection) => connection.receive(budget),
        }
    }
}

/// A connection over a socket whose every read and write is bounded.
pub(crate) struct OwnWire {
    stream: Stream,
    parser: Parser,
}

/// The bytes' way.
pub(crate) enum Stream {
    Plain(BoundedSocket),
    #[cfg(feature = "tls-rustls")]
    Tls(Box<StreamOwned<ClientConnection, BoundedSocket>>),
}

impl OwnWire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            parser: Parser::new(),
        }
    }

    fn is_over(&self) -> bool {
        match &self.stream {
            Stream::Plain(socket) => socket.is_over(true),
            // TLS has messages of its own.
            #[cfg(feature = "tls-rustls")]
            Stream::Tls(stream) => stream.sock.is_over(false),
        }
    }

    fn within(&mut self, budget: Budget) -> &mut Stream {
        match &mut self.stream {
            Stream::Plain(socket) => socket.set_budget(budget),
            #[cfg(feature = "tls-rustls")]
            Stream::Tls(stream) => stream.sock.set_budget(budget),
        }
        &mut self.stream
    }
}

impl Wire for OwnWire {
    fn send(&mut self, command: &[u8], budget: Budget) -> RedisResult<()> {
        let stream = self.within(budget);
        stream.write_all(command)?;
        Ok(stream.flush()?)
    }

    fn receive(&mut self, budget: Budget) -> RedisResult<Value> {
        self.within(budget);
        self.parser.parse_value(&mut self.stream)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls-rustls")]
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buffer),
            #[cfg(feature = "tls-rustls")]
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            #[cfg(feature = "tls-rustls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// The library bounds each read and write by itself, not all of them together.
impl Wire for redis::Connection {
    fn send(&mut self, command: &[u8], budget: Budget) -> RedisResult<()> {
        self.set_write_timeout(Some(at_least_some(budget)))?;
        self.send_packed_command(command)
    }

    fn receive(&mut self, budget: Budget) -> RedisResult<Value> {
        loop {
            self.set_read_timeout(Some(at_least_some(budget)))?;
            match self.recv_response()? {
                // Nobody here has asked for it.
                Value::Push { .. } => {}
                answer => return Ok(answer),
            }
        }
    }
}

/// What is left, since zero is for ever.
fn at_least_some(budget: Budget) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(60 * 60);
    budget.remaining().clamp(SHORTEST, LONGEST)
}
