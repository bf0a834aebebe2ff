//! A thread of a store's own, and its end.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use guard_core::LOG_TARGET;
use parking_lot::{Condvar, Mutex};

use crate::connection::open_sockets::OpenSockets;

/// One thread, from its first need to the end of what it works for.
pub(crate) struct Worker {
    name: &'static str,
    /// How long the end of the thread is waited for.
    grace: Duration,
    stop: Arc<Stop>,
    /// What the thread has open, and may be waiting for.
    sockets: Arc<OpenSockets>,
    /// Protects the thread and its end, whose sender the thread drops when it is over; `None` before the
    /// start.
    thread: Mutex<Option<(ThreadId, Receiver<()>)>>,
}

/// Whether a thread is asked to end.
#[derive(Default)]
pub(crate) struct Stop {
    /// Protects that; the thread sleeps on it.
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Worker {
    pub(crate) fn new(name: &'static str, grace: Duration) -> Self {
        Self {
            name,
            grace,
            stop: Arc::default(),
            sockets: OpenSockets::new(),
            thread: Mutex::new(None),
        }
    }

    /// Where the thread's connections have their sockets: they end when the thread is asked to.
    pub(crate) const fn sockets(&self) -> &Arc<OpenSockets> {
        &self.sockets
    }

    /// Starts the thread, unless it was started before.
    pub(crate) fn start(&self, work: impl FnOnce(&Stop) + Send + 'static) -> io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (alive, over) = mpsc::channel();
            let stop = Arc::clone(&self.stop);
            let handle = thread::Builder::new()
                .name(self.name.to_owned())
                .spawn(move || {
                    let _alive = alive;
                    work(&stop);
                })?;
            *thread = Some((handle.thread().id(), over));
        }
        Ok(())
    }

    /// Asks the thread to end, and does not wait for it.
    pub(crate) fn stop(&self) {
        // A process that was forked has no such thread, and may have got the lock in whatever state.
        if !self.sockets.are_ours() {
            return;
        }
        *self.stop.asked.lock() = true;
        self.stop.changed.notify_all();
        self.sockets.hang_up();
    }

    /// The same, and nobody ever waits for it.
    #[cfg(feature = "cluster")]
    pub(crate) fn let_go(&self) {
        self.stop();
        *self.thread.lock() = None;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.sockets.are_ours() {
            return;
        }
        self.stop();
        // The last handle may go on the thread itself, which must not wait for its own end.
        if let Some((id, over)) = self.thread.get_mut().take()
            && id != thread::current().id()
        {
            // It has nothing to wait for any more, but for the resolution of a name.
            if over.recv_timeout(self.grace) == Err(RecvTimeoutError::Timeout) {
                log::debug!(target: LOG_TARGET, "the thread {:?} will end later", self.name);
            }
        }
    }
}

impl Stop {
    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.lock()
    }

    /// Sleeps, unless the thread is asked to end.
    pub(crate) fn sleep(&self, time: Duration) {
        let mut asked = self.asked.lock();
        if !*asked {
            self.changed.wait_for(&mut asked, time);
        }
    }
}
