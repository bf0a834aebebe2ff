//! A TCP proxy with faults on command, between a guard and its server.
//!
//! Two threads a connection pass bytes on, one each way. Bytes that a fault keeps back are not lost: they are
//! delivered when the fault is over, also when their client is long gone, as a network that stalls does.
//! Only a cut loses bytes.

mod pump;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::fixture::eventually;

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
    /// This one is held back.
    Holding(Weak<Connection>),
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
        matches!(self.shared.lock().hold, Hold::Holding(_))
    }

    /// Cuts the client whose bytes are held back off; they can still be delivered.
    pub fn cut_held_client(&self) {
        if let Hold::Holding(connection) = &self.shared.lock().hold
            && let Some(connection) = connection.upgrade()
        {
            // An error says that it has gone already.
            let _ = connection.client.shutdown(Shutdown::Both);
        }
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
