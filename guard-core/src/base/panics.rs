//! Code that is not ours: users' callbacks, observers, and stores. Its panics end no thread of a guard, and escape no
//! `close`.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign code; `None` if it panicked, which is logged.
pub(crate) fn shielded<T>(what: &str, foreign: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(foreign)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // To drop it would run foreign code again.
            std::mem::forget(payload);
            let log = || log::error!(target: crate::LOG_TARGET, "{what} panicked");
            if let Err(payload) = catch_unwind(AssertUnwindSafe(log)) {
                std::mem::forget(payload);
            }
            None
        }
    }
}

/// Something a user wants to be called.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// Calls user code; a panic in it is logged and harms nobody.
pub(crate) fn call(callback: Callback) {
    shielded("a callback", callback);
}

/// Drops callbacks that will not run: what they captured is the user's, and may panic as it goes.
pub(crate) fn discard(callbacks: Vec<Callback>) {
    for callback in callbacks {
        shielded("what a callback captured", || drop(callback));
    }
}
