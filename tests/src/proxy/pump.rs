//! The proxy's threads: one accepts, two a connection pass bytes on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Connection, Direction, Hold, Shared, State};

/// How often the accepting thread looks for something to do.
const POLL: Duration = Duration::from_millis(1);

/// What becomes of a piece of bytes.
enum Fate {
    Forward,
    /// So many of them are forwarded, and the connection is cut.
    Cut(usize),
    Stop,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn accept(self: &Arc<Self>, port: u16, listener: TcpListener) {
        listener.set_nonblocking(true).expect("a listener");
        let mut listener = Some(listener);
        loop {
            {
                // Under the lock, so that nobody takes the port for what it was a moment ago.
                let mut state = self.lock();
                if state.stop {
                    return;
                }
                if state.refuse {
                    listener = None;
                } else if listener.is_none() {
                    // The port is ours but for the moment.
                    listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
                    if let Some(listener) = &listener {
                        listener.set_nonblocking(true).expect("a listener");
                    }
                }
                state.listening = listener.is_some();
            }
            match listener.as_ref().map(TcpListener::accept) {
                Some(Ok((client, _))) => self.connect(client),
                Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => {}
                _ => thread::sleep(POLL),
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        // Without a server the client is told by the end of its connection.
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.upstream)) else {
            return;
        };
        for socket in [&client, &server] {
            socket.set_nonblocking(false).expect("a socket");
            socket.set_nodelay(true).expect("a socket");
        }
        let connection = Arc::new(Connection { client, server });
        {
            let mut state = self.lock();
            // The port closes a moment after it was to refuse.
            if state.refuse || state.stop {
                return;
            }
            state.connections.retain(|old| old.strong_count() > 0);
            state.connections.push(Arc::downgrade(&connection));
        }
        for direction in [Direction::Request, Direction::Reply] {
            let (shared, connection) = (Arc::clone(self), Arc::clone(&connection));
            thread::spawn(move || shared.pump(&connection, direction));
        }
    }

    fn pump(&self, connection: &Arc<Connection>, direction: Direction) {
        let (mut from, mut to) = match direction {
            Direction::Request => (&connection.client, &connection.server),
            Direction::Reply => (&connection.server, &connection.client),
        };
        let mut buffer = vec![0; 1 << 16];
        let mut held = false;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let fate = self.fate(connection, direction, read, &mut held);
            let passed = match fate {
                Fate::Forward => read,
                Fate::Cut(bytes) => bytes,
                Fate::Stop => return connection.cut(),
            };
            self.lock().forwarded[direction as usize] += passed;
            let sent = to.write_all(&buffer[..passed]);
            if matches!(fate, Fate::Cut(_)) {
                connection.cut();
                let mut state = self.lock();
                if state.refuse {
                    state.cut_all();
                }
                return;
            }
            if sent.is_err() {
                break;
            }
        }
        // The other way goes on: what the server was sent it may still execute.
        let _ = to.shutdown(Shutdown::Write);
        if direction == Direction::Reply {
            let _ = from.shutdown(Shutdown::Both);
        }
    }

    fn fate(
        &self,
        connection: &Arc<Connection>,
        direction: Direction,
        bytes: usize,
        held: &mut bool,
    ) -> Fate {
        let delay = self.lock().delay;
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        let mut state = self.lock();
        if direction == Direction::Request && matches!(state.hold, Hold::Next) {
            state.hold = Hold::Holding(Arc::downgrade(connection));
            *held = true;
        }
        while !state.stop && (state.black_hole || *held && matches!(state.hold, Hold::Holding(_))) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *held = false;
        if state.stop {
            return Fate::Stop;
        }
        let Some(cut) = state
            .cuts
            .front_mut()
            .filter(|cut| cut.direction == direction)
        else {
            return Fate::Forward;
        };
        if cut.after > bytes {
            cut.after -= bytes;
            return Fate::Forward;
        }
        let (after, then_refuse) = (cut.after, cut.then_refuse);
        state.cuts.pop_front();
        state.refuse |= then_refuse;
        Fate::Cut(after)
    }
}
