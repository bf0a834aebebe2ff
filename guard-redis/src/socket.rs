//! Opening a Unix socket within a budget.
//!
//! While the server's queue of connections is full, which is when the server has been stalled for a while, the
//! operating system lets whoever connects hang, and the client library cannot bound it. So it is done on a
//! thread, which is left behind if it hangs: one for each socket of the process, since they take turns.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use guard_core::{Budget, StoreError};
use parking_lot::{Condvar, Mutex};

use crate::error::out_of_time;

const STEP: &str = "connecting";
const THREAD_NAME: &str = "guard-socket";

/// Protects which sockets are being opened. They are opened with it free.
static BEING_OPENED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static CHANGED: Condvar = Condvar::new();

/// Opens the socket at `path` by `open`, for as long as the budget lasts.
pub(crate) fn open_within<T: Send + 'static>(
    budget: Budget,
    path: &Path,
    open: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let turn = Turn::wait_for(budget, path).ok_or_else(|| out_of_time(STEP))?;
    let (opened, result) = mpsc::sync_channel(1);
    let work = move || {
        let connection = open();
        drop(turn);
        // Nobody may be waiting any more: then this closes the connection.
        let _ = opened.send(connection);
    };
    thread::Builder::new()
        .name(THREAD_NAME.to_owned())
        .spawn(work)
        .map_err(no_thread)?;
    result
        .recv_timeout(budget.remaining())
        .map_err(|_| out_of_time(STEP))
}

fn no_thread(error: io::Error) -> StoreError {
    StoreError::transient(format!("{STEP}: the system gave no thread")).with_source(error)
}

/// The right to open a socket, until it is dropped.
struct Turn(PathBuf);

impl Turn {
    fn wait_for(budget: Budget, path: &Path) -> Option<Self> {
        let mut being_opened = BEING_OPENED.lock();
        while being_opened.contains(path) {
            if CHANGED
                .wait_until(&mut being_opened, budget.deadline())
                .timed_out()
            {
                return None;
            }
        }
        being_opened.insert(path.to_owned());
        Some(Self(path.to_owned()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BEING_OPENED.lock().remove(&self.0);
        CHANGED.notify_all();
    }
}
