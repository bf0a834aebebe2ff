//! A socket whose reads and writes end when the operation's budget does.
//!
//! What is left is set before each of them, so an answer that comes byte by byte takes no longer than one that does
//! not come at all. A signal that arrives meanwhile ends nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guard_core::Budget;
use redis::io::tcp::TcpSettings;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::connection::open_sockets::OpenSockets;

/// How long a connection is silent before the operating system asks whether the other end is still there …
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);
/// … and how long it waits before it asks again.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long to wait before the next try to get into a Unix socket's queue, which is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);
/// The longest that the operating system is asked to wait at once: not all systems take more.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// A connected socket, and what bounds its use.
pub(crate) struct BoundedSocket {
    socket: Arc<Socket>,
    budget: Budget,
    /// The timeouts that the socket has now. Most operations have the same budget, and so find them set already.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl BoundedSocket {
    /// Connects within the budget.
    pub(crate) fn connect(
        address: &SockAddr,
        settings: &TcpSettings,
        sockets: &OpenSockets,
        budget: Budget,
    ) -> io::Result<Self> {
        let domain = address.domain();
        let socket = Arc::new(Socket::new(domain, Type::STREAM, None)?);
        if !sockets.add(&socket) {
            return Err(io::Error::new(ErrorKind::NotConnected, "the guard is gone"));
        }
        if domain == Domain::UNIX {
            connect_local(&socket, address, budget)?;
        } else {
            socket.connect_timeout(address, left(budget)?)?;
            apply(&socket, settings)?;
        }
        Ok(Self {
            socket,
            budget,
            read_timeout: None,
            write_timeout: None,
        })
    }

    /// Reads and writes are bounded by this from now on.
    pub(crate) const fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Whether the other end has hung up, as far as is known here, or has sent something (`unread` says whether
    /// that is wrong).
    pub(crate) fn is_over(&self, unread: bool) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let looked = self
            .socket
            .set_nonblocking(true)
            .and_then(|()| self.socket.peek(&mut byte));
        let usable = match looked {
            Ok(0) => false,
            Ok(_) => !unread,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        self.socket.set_nonblocking(false).is_err() || !usable
    }
}

impl Read for BoundedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let timeout = Some(rounded_down(left(self.budget)?));
            if self.read_timeout != timeout {
                self.socket.set_read_timeout(timeout)?;
                self.read_timeout = timeout;
            }
            match (&*self.socket).read(buffer) {
                Err(error) if is_over_early(&error) => {}
                result => return result,
            }
        }
    }
}

impl Write for BoundedSocket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            let timeout = Some(rounded_down(left(self.budget)?));
            if self.write_timeout != timeout {
                self.socket.set_write_timeout(timeout)?;
                self.write_timeout = timeout;
            }
            match (&*self.socket).write(buffer) {
                Err(error) if is_over_early(&error) => {}
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a signal ended a read or write, or a timeout that was a little shorter than the budget.
fn is_over_early(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock => true,
        // Elsewhere it is the connection's own, which is dead.
        ErrorKind::TimedOut => cfg!(windows),
        _ => false,
    }
}

/// What is left of the budget, as far as one wait can take it.
fn left(budget: Budget) -> io::Result<Duration> {
    match budget.remaining() {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        remaining => Ok(remaining.min(LONGEST_WAIT)),
    }
}

/// Connects to a Unix socket. While its queue of connections is full, which is when its server has been stalled for a
/// while, the operating system would let us hang; asked not to, it says so at once, and cannot be waited for.
fn connect_local(socket: &Socket, address: &SockAddr, budget: Budget) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    loop {
        let remaining = left(budget)?;
        match socket.connect(address) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(QUEUE_PAUSE.min(remaining));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => break result?,
        }
    }
    socket.set_nonblocking(false)
}

/// What the address asks for, and what notices a peer that is gone without a word.
fn apply(socket: &Socket, settings: &TcpSettings) -> io::Result<()> {
    let ours = || {
        TcpKeepalive::new()
            .with_time(KEEP_ALIVE_AFTER)
            .with_interval(KEEP_ALIVE_INTERVAL)
    };
    let keep_alive = settings.keepalive().cloned().unwrap_or_else(ours);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_nodelay(true)
}

/// A time that is not a sixteenth shorter.
fn rounded_down(time: Duration) -> Duration {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let beyond = (u64::BITS - nanos.leading_zeros()).saturating_sub(5);
    Duration::from_nanos(nanos >> beyond << beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_down_by_less_than_a_sixteenth() {
        for nanos in [
            1,
            15,
            16,
            33,
            999_999,
            1_999_990_000,
            2_000_000_000,
            u64::MAX,
        ] {
            let (time, rounded) = (
                Duration::from_nanos(nanos),
                rounded_down(Duration::from_nanos(nanos)),
            );
            assert!(rounded <= time && time - rounded < time / 16 + Duration::from_nanos(1));
            assert!(!rounded.is_zero(), "zero is for ever");
        }
        let seconds = |seconds| rounded_down(Duration::from_secs_f64(seconds));
        assert_eq!(seconds(1.9999), seconds(1.98));
        assert!(rounded_down(Duration::MAX) < Duration::MAX);
    }
}
