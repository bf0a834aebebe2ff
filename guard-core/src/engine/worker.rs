//! A thread of a guard, with an end that can be waited for.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A named thread that tells when it is done.
#[derive(Debug)]
pub(crate) struct Worker {
    handle: JoinHandle<()>,
    done: Arc<Done>,
}

#[derive(Debug, Default)]
struct Done {
    /// Protects whether the thread's work is over.
    done: Mutex<bool>,
    changed: Condvar,
}

/// Tells that the thread is done when it is dropped, by a panic too.
struct TellDone(Arc<Done>);

impl Drop for TellDone {
    fn drop(&mut self) {
        *self.0.done.lock() = true;
        self.0.changed.notify_all();
    }
}

impl Worker {
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Self, io::Error> {
        let done = Arc::new(Done::default());
        let tell = TellDone(Arc::clone(&done));
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _tell = tell;
                work();
            })?;
        Ok(Self { handle, done })
    }

    pub(crate) fn id(&self) -> ThreadId {
        self.handle.thread().id()
    }

    /// Waits for the thread's end until `deadline`, then lets it go; answers whether it has ended. Not to be called on
    /// the thread itself.
    pub(crate) fn finish_by(self, deadline: Instant) -> bool {
        {
            let mut done = self.done.done.lock();
            while !*done {
                if self
                    .done
                    .changed
                    .wait_until(&mut done, deadline)
                    .timed_out()
                {
                    break;
                }
            }
            if !*done {
                return false;
            }
        }
        // The work is over: what is left of the thread ends at once.
        if let Err(payload) = self.handle.join() {
            // To drop it might run foreign code, which may panic again.
            std::mem::forget(payload);
            log::error!(target: crate::LOG_TARGET, "a thread of the guard panicked");
        }
        true
    }
}
