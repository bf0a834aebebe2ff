//! User code runs here, on one thread of its own, started at first use.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};

use parking_lot::Mutex;

use crate::worker::Worker;

const THREAD_NAME: &str = "guard-callbacks";

/// Something a user wants to be called.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// The callback thread of a guard.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    /// Protects the thread and the way to it: both there or both not.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    sender: Sender<Callback>,
    worker: Worker,
}

impl Callbacks {
    pub(crate) const THREAD_NAME: &str = THREAD_NAME;

    /// Makes sure that the thread runs, so that a later [`run`](Self::run) cannot fail.
    pub(crate) fn start(&self) -> Result<(), io::Error> {
        let mut running = self.running.lock();
        if running.is_none() {
            let (sender, receiver) = mpsc::channel::<Callback>();
            let work = move || receiver.into_iter().for_each(call);
            let worker = Worker::start(THREAD_NAME, work)?;
            *running = Some(Running { sender, worker });
        }
        Ok(())
    }

    /// Runs a callback on the thread, which must have been started.
    pub(crate) fn run(&self, callback: Callback) {
        let sender = self
            .running
            .lock()
            .as_ref()
            .map(|running| running.sender.clone());
        // The receiver lives as long as a sender does.
        if sender.is_none_or(|sender| sender.send(callback).is_err()) {
            log::error!(target: crate::LOG_TARGET, "a callback was lost: its thread does not run");
        }
    }

    /// Lets the thread end after the callbacks that it already has.
    pub(crate) fn stop(&self) -> Option<Worker> {
        self.running.lock().take().map(|running| running.worker)
    }
}

/// Calls user code; a panic in it is logged and harms nobody.
pub(crate) fn call(callback: Callback) {
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        log::error!(target: crate::LOG_TARGET, "a callback panicked");
    }
}

/// Drops callbacks that will not run: what they captured is the user's, and may panic as it goes.
pub(crate) fn discard(callbacks: Vec<Callback>) {
    for callback in callbacks {
        call(Box::new(move || drop(callback)));
    }
}
