//! The sockets that somebody has open, so that somebody else can end them all.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use socket2::Socket;

/// The open sockets of one user of connections.
pub(crate) struct OpenSockets {
    /// A process that was forked from this one has the same sockets, and must leave them alone.
    process: u32,
    /// Protects which sockets there are, but not their use.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether there will be no more.
    over: bool,
    open: Vec<Weak<Socket>>,
}

impl OpenSockets {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            process: std::process::id(),
            state: Mutex::default(),
        })
    }

    /// Whether this is the process in which the sockets were opened, and not a child of it.
    pub(crate) fn are_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Notes a socket; answers whether it may be used.
    pub(crate) fn add(&self, socket: &Arc<Socket>) -> bool {
        let mut state = self.state.lock();
        state.open.retain(|socket| socket.strong_count() > 0);
        state.open.push(Arc::downgrade(socket));
        !state.over
    }

    /// Ends all sockets, and every one that is opened later: whoever connects, reads or writes is done at once.
    pub(crate) fn hang_up(&self) {
        if !self.are_ours() {
            return;
        }
        let open = {
            let mut state = self.state.lock();
            state.over = true;
            std::mem::take(&mut state.open)
        };
        for socket in open.iter().filter_map(Weak::upgrade) {
            // An error says that it is over already.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}
