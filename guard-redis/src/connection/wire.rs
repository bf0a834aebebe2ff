//! Commands out, answers in, within a budget. The client library's parser reads what is said.

use std::io::{Read, Write};

use guard_core::Budget;
use redis::{Parser, RedisResult, Value};
#[cfg(feature = "tls-rustls")]
use rustls::{ClientConnection, StreamOwned};

use crate::connection::socket::BoundedSocket;

/// What commands and answers go over: a socket whose every read and write is bounded.
pub(crate) struct Wire {
    stream: Stream,
    parser: Parser,
}

/// The bytes' way.
pub(crate) enum Stream {
    Plain(BoundedSocket),
    #[cfg(feature = "tls-rustls")]
    Tls(Box<StreamOwned<ClientConnection, BoundedSocket>>),
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            parser: Parser::new(),
        }
    }

    /// Sends packed commands.
    pub(crate) fn send(&mut self, commands: &[u8], budget: Budget) -> RedisResult<()> {
        let stream = self.within(budget);
        stream.write_all(commands)?;
        Ok(stream.flush()?)
    }

    /// Reads one answer.
    pub(crate) fn receive(&mut self, budget: Budget) -> RedisResult<Value> {
        self.within(budget);
        self.parser.parse_value(&mut self.stream)
    }

    /// Whether the other end has hung up, as far as is known here.
    pub(crate) fn is_over(&self) -> bool {
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
