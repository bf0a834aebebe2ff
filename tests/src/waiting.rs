//! Threads that are known to wait.

use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guard_core::Interrupt;

use crate::fixture::eventually;

/// A thread that is inside a blocking call.
#[derive(Debug)]
pub struct Waiting<T> {
    thread: JoinHandle<T>,
    own: Interrupt,
}

impl<T: Send + 'static> Waiting<T> {
    /// Runs `call` on a thread; returns once that thread sleeps in it. An entry that sleeps has its place
    /// in the queue, so entries started one after the other queue in this order.
    ///
    /// # Panics
    ///
    /// When the thread ends or never sleeps.
    #[track_caller]
    pub fn start(call: impl FnOnce() -> T + Send + 'static) -> Self {
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let task = fs::read_link("/proc/thread-self").unwrap();
            tell.send((task, Interrupt::current())).unwrap();
            call()
        });
        let (task, own) = told.recv().unwrap();
        let stat = PathBuf::from("/proc").join(task).join("stat");
        // Asleep several times in a row: not merely between two steps.
        let mut asleep = 0;
        eventually("a thread sleeps in its call", || {
            asleep = if sleeps(&stat) { asleep + 1 } else { 0 };
            asleep > 3 || thread.is_finished()
        });
        assert!(!thread.is_finished(), "the call does not wait");
        Self { thread, own }
    }

    /// Interrupts the thread by its own handle.
    pub fn interrupt(&self) {
        self.own.interrupt();
    }

    /// Whether the call has returned.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the call's result.
    ///
    /// # Panics
    ///
    /// When the call does not return, and with the panic of the call.
    #[track_caller]
    pub fn result(self) -> T {
        eventually("a waiting call returns", || self.thread.is_finished());
        self.thread
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn sleeps(stat: &PathBuf) -> bool {
    // pid (name) state …: the name may hold anything, so the state stands behind the last bracket.
    let stat = fs::read_to_string(stat).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// Runs `work` on `threads` threads at once, and answers their results.
///
/// # Panics
///
/// With the panic of a thread.
pub fn together<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(threads);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|number| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(number)
                })
            })
            .collect();
        let join = |handle: thread::ScopedJoinHandle<'_, T>| {
            handle.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    })
}

/// Long enough for something to happen that must not, and short enough for a suite.
pub(crate) const A_WHILE: Duration = Duration::from_millis(60);
