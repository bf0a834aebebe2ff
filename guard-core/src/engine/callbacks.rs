//! User code runs here, on threads of its own, started at first use: one for callbacks of leases, one for the
//! observer, so that neither waits for the other.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};

use parking_lot::Mutex;

use crate::base::panics::{Callback, call, discard};
use crate::engine::worker::Worker;

/// How many events may wait for the observer.
pub(crate) const LONGEST_QUEUE: usize = 4096;

/// A thread for user code.
#[derive(Debug)]
pub(crate) struct Callbacks {
    thread: &'static str,
    bounded: bool,
    /// Protects the thread and the way to it: both there or both not.
    running: Mutex<Option<Running>>,
    /// How many calls found no place in the queue since the last that did.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Running {
    queue: Queue,
    worker: Worker,
}

#[derive(Clone, Debug)]
enum Queue {
    Unbounded(Sender<Callback>),
    Bounded(SyncSender<Callback>),
}

impl Callbacks {
    /// For callbacks of leases: none is left out.
    pub(crate) const fn of_leases() -> Self {
        Self::new("guard-callbacks", false)
    }

    /// For the observer: what it has no time for is left out.
    pub(crate) const fn of_observer() -> Self {
        Self::new("guard-observer", true)
    }

    const fn new(thread: &'static str, bounded: bool) -> Self {
        Self {
            thread,
            bounded,
            running: Mutex::new(None),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) const fn thread_name(&self) -> &'static str {
        self.thread
    }

    /// Makes sure that the thread runs, so that a later [`run`](Self::run) cannot fail.
    pub(crate) fn start(&self) -> Result<(), io::Error> {
        let mut running = self.running.lock();
        if running.is_none() {
            let (queue, receiver) = self.queue();
            let work = move || receiver.into_iter().for_each(call);
            let worker = Worker::start(self.thread, work)?;
            *running = Some(Running { queue, worker });
        }
        Ok(())
    }

    fn queue(&self) -> (Queue, Receiver<Callback>) {
        if self.bounded {
            let (sender, receiver) = mpsc::sync_channel(LONGEST_QUEUE);
            (Queue::Bounded(sender), receiver)
        } else {
            let (sender, receiver) = mpsc::channel();
            (Queue::Unbounded(sender), receiver)
        }
    }

    /// Runs a callback on the thread, which must have been started.
    pub(crate) fn run(&self, callback: Callback) {
        let running = self.running.lock();
        let queue = running.as_ref().map(|running| running.queue.clone());
        drop(running);
        // What is not run is dropped with no lock held: it is the user's.
        let refused = match queue {
            Some(Queue::Unbounded(sender)) => sender.send(callback).map_err(|refused| refused.0),
            Some(Queue::Bounded(sender)) => match sender.try_send(callback) {
                Err(TrySendError::Full(callback)) => return self.drop_one(callback),
                Err(TrySendError::Disconnected(callback)) => Err(callback),
                Ok(()) => Ok(()),
            },
            None => Err(callback),
        };
        match refused {
            Ok(()) => self.tell_dropped(),
            // The receiver lives as long as a sender does.
            Err(callback) => {
                log::error!(
                    target: crate::LOG_TARGET,
                    "a callback was lost: the thread {} does not run", self.thread
                );
                discard(vec![callback]);
            }
        }
    }

    fn drop_one(&self, callback: Callback) {
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            log::warn!(
                target: crate::LOG_TARGET,
                "the guard's observer is too slow: {LONGEST_QUEUE} events wait, further ones are left out"
            );
        }
        discard(vec![callback]);
    }

    fn tell_dropped(&self) {
        if self.dropped.load(Ordering::Relaxed) == 0 {
            return;
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            log::warn!(
                target: crate::LOG_TARGET,
                "{dropped} events were left out for the guard's observer"
            );
        }
    }

    /// Lets the thread end after the callbacks that it already has.
    pub(crate) fn stop(&self) -> Option<Worker> {
        self.running.lock().take().map(|running| running.worker)
    }
}
