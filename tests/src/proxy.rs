//! A TCP proxy with faults on command, between a guard and its server.
//!
//! Two threads a connection pass bytes on, one each way. Bytes that a fault keeps back are not lost: they are
//! delivered when the fault is over, also when their client is long gone, as a network that stalls does.
//! Only a cut loses bytes.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::fixture::eventually;

/// How often the accepting thread looks for something to do.
const POLL: Duration = Duration::from_millis(1);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// A proxy on a port of its own; it cuts its connections when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: u16,
    /// Protects the faults in force and the connections. Bytes are read and written with the lock free.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    refuse: bool,
    listening: bool,
    black_hole: bool,
    delay: Duration,
    cuts: VecDeque<Cut>,
    hold: Hold,
    forwarded: [usize; 2],
    connections: Vec<Weak<Connection>>,
}

#[derive(Debug)]
struct Cut {
    direction: Direction,
    after: usize,
    then_refuse: bool,
}

/// Where the holding back of one client's bytes stands.
#[derive(Debug, Default)]
enum Hold {
    #[default]
    Off,
    /// The next connection that sends something is held back.
    Next,
    /// One is held back.
    Holding,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn cut(&self) {
        // An error says that it is cut already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Proxy {
    /// Starts a proxy for the server at `upstream`, a port of this machine.
    ///
    /// # Panics
    ///
    /// When there is no port to be had.
    #[must_use]
    pub fn to(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its own address").port();
        let state = State {
            listening: true,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            upstream,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.accept(port, listener))
        };
        Self {
            port,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// The URL of a Redis server behind the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The proxy's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the connection that brings the `bytes`-th byte from now on in this direction, once, just after
    /// that byte; with zero, just before the first. Bytes beyond are lost. Cuts that are planned before the
    /// first one is made follow it: their bytes count from there.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        self.plan_cut(direction, bytes, false);
    }

    /// The same, and from then on refuses connections and cuts all others, until [`heal`](Self::heal).
    pub fn cut_for_good_after(&self, direction: Direction, bytes: usize) {
        self.plan_cut(direction, bytes, true);
    }

    fn plan_cut(&self, direction: Direction, after: usize, then_refuse: bool) {
        self.shared.lock().cuts.push_back(Cut {
            direction,
            after,
            then_refuse,
        });
    }

    /// Whether all planned cuts have been made.
    #[must_use]
    pub fn has_cut(&self) -> bool {
        self.shared.lock().cuts.is_empty()
    }

    /// Cuts every connection now.
    pub fn cut_all(&self) {
        self.shared.lock().cut_all();
    }

    /// Refuses new connections, or accepts them again. Those that are there stay.
    pub fn refuse(&self, refuse: bool) {
        self.shared.lock().refuse = refuse;
        eventually("the proxy's port changes", || {
            self.shared.lock().listening != refuse
        });
    }

    /// Accepts and keeps connections but forwards nothing, or goes on with everything that was kept back.
    pub fn black_hole(&self, black_hole: bool) {
        self.shared.lock().black_hole = black_hole;
        self.shared.changed.notify_all();
    }

    /// Delays every piece of bytes by so much.
    pub fn delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// Holds back what the next client to send something sends from now on. Its connection to the server
    /// stays open, whatever the client does.
    pub fn hold_next(&self) {
        self.shared.lock().hold = Hold::Next;
    }

    /// Whether a client's bytes are held back.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        matches!(self.shared.lock().hold, Hold::Holding)
    }

    /// Delivers what was held back.
    pub fn deliver(&self) {
        self.shared.lock().hold = Hold::Off;
        self.shared.changed.notify_all();
    }

    /// Ends all faults; what they kept back is delivered.
    pub fn heal(&self) {
        {
            let mut state = self.shared.lock();
            state.black_hole = false;
            state.delay = Duration::ZERO;
            state.cuts.clear();
            state.hold = Hold::Off;
        }
        self.shared.changed.notify_all();
        self.refuse(false);
    }

    /// How many bytes went this way so far.
    #[must_use]
    pub fn forwarded(&self, direction: Direction) -> usize {
        self.shared.lock().forwarded[direction as usize]
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.stop = true;
            state.cut_all();
        }
        self.shared.changed.notify_all();
        if let Some(acceptor) = self.acceptor.take() {
            // A panic of it has failed the test already.
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn cut_all(&mut self) {
        for connection in self.connections.drain(..) {
            if let Some(connection) = connection.upgrade() {
                connection.cut();
            }
        }
    }
}

/// What becomes of a piece of bytes.
enum Fate {
    Forward,
    /// So many of them are forwarded, and the connection is cut.
    Cut(usize),
    Stop,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, port: u16, listener: TcpListener) {
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

    fn pump(&self, connection: &Connection, direction: Direction) {
        let (mut from, mut to) = match direction {
            Direction::Request => (&connection.client, &connection.server),
            Direction::Reply => (&connection.server, &connection.client),
        };
        let mut buffer = vec![0; 1 << 16];
        let mut held = false;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let fate = self.fate(direction, read, &mut held);
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

    fn fate(&self, direction: Direction, bytes: usize, held: &mut bool) -> Fate {
        let delay = self.lock().delay;
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        let mut state = self.lock();
        if direction == Direction::Request && matches!(state.hold, Hold::Next) {
            state.hold = Hold::Holding;
            *held = true;
        }
        while !state.stop && (state.black_hole || *held && matches!(state.hold, Hold::Holding)) {
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
