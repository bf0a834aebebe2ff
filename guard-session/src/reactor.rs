//! The thread that moves bytes for all connections, and how callers wait for it.
//!
//! Callers never enter the runtime: they poll their own future and park, so that a wait ends at its deadline
//! whatever the connection does, and a caller that has a runtime of its own is not in the way.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use guard_core::Budget;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::process::Process;
use crate::session::Failure;

/// The thread that moves bytes for all connections of a store. It ends, and with it all connections, when this
/// is dropped.
pub(crate) struct Reactor {
    handle: Handle,
    /// Protects the end of the thread: used up by whoever stops it.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl Reactor {
    /// Starts the thread, under this name. An error is what the operating system says to the thread or to what it needs.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let runtime = match Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(tell.send(Err(error))),
                };
                let told = tell.send(Ok(runtime.handle().clone()));
                if told.is_ok() {
                    // Its sender is used or dropped: both mean the end.
                    let _ = runtime.block_on(stopped);
                }
                runtime.shutdown_background();
            })?;
        let handle = told.recv().map_err(io::Error::other)??;
        Ok(Self {
            handle,
            stop: Mutex::new(Some(stop)),
            thread: Some(thread),
            process: Process::this(),
        })
    }

    /// Runs `task` on the thread.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// Ends the thread, and with it all connections: whoever waits for an answer is told that there is none.
    pub(crate) fn stop(&self) {
        drop(self.stop.lock().take());
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The thread is the parent's: nobody here can end it, or wait for it.
            std::mem::forget((self.stop.get_mut().take(), self.thread.take()));
            return;
        }
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It runs nobody else's code; a panic of it has been reported by the hook.
            let _ = thread.join();
        }
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future`, whose input and output a [`Reactor`] moves, until `deadline`.
fn wait<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return None;
        }
        thread::park_timeout(remaining);
    }
}

/// Waits for the answer to `operation` within the budget; for authors of stores whose client is asynchronous.
///
/// # Errors
///
/// Those of `asking`, and what [`Failure::out_of_time`] and [`Failure::no_answer`] say.
pub fn within<T>(
    operation: &str,
    budget: Budget,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    if budget.remaining().is_zero() {
        return Err(Failure::out_of_time(operation));
    }
    let answer = wait(asking, budget.deadline());
    answer.unwrap_or_else(|| Err(Failure::no_answer(operation)))
}

/// Waits for all of `futures` at once until `deadline`; answers what they came to, in their order, and `None` for those
/// that did not come to anything in time.
pub(crate) fn wait_all<F: Future>(
    futures: impl IntoIterator<Item = F>,
    deadline: Instant,
) -> Vec<Option<F::Output>> {
    let numbered = |(number, future): (usize, F)| async move { (number, future.await) };
    let mut pending: FuturesUnordered<_> = futures.into_iter().enumerate().map(numbered).collect();
    let mut outputs = Vec::new();
    outputs.resize_with(pending.len(), || None);
    while let Some(Some((number, output))) = wait(pending.next(), deadline) {
        if let Some(place) = outputs.get_mut(number) {
            *place = Some(output);
        }
    }
    outputs
}
