//! The locks and atomics of gates, waiters, leases and interrupts: the usual ones, or those of the model checker.
//!
//! Built with `--cfg shuttle`, `tests/model.rs` runs the engine under `shuttle`, which decides which thread
//! goes on at each of them.

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};
#[cfg(not(shuttle))]
pub(crate) use std::thread_local;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicUsize};
#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;

#[cfg(shuttle)]
pub(crate) use model::{Condvar, Mutex, MutexGuard};

/// `shuttle`'s locks with `parking_lot`'s interface.
#[cfg(shuttle)]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failure here fails the model"
)]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::time::{Duration, Instant};

    /// A wait that is shorter ends whenever the checker likes; a longer one never, so that a wake-up that is
    /// lost shows as a deadlock.
    const NEVER: Duration = Duration::from_secs(60);

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T> {
        inner: Option<shuttle::sync::MutexGuard<'a, T>>,
        mutex: &'a shuttle::sync::Mutex<T>,
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    pub(crate) struct TimedOut(bool);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap()
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard {
                inner: Some(self.0.lock().unwrap()),
                mutex: &self.0,
            }
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.inner.as_ref().expect("a guard that waits is not used")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.inner.as_mut().expect("a guard that waits is not used")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            guard.inner = guard.inner.take().map(|inner| self.0.wait(inner).unwrap());
        }

        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            deadline: Instant,
        ) -> TimedOut {
            if deadline.saturating_duration_since(Instant::now()) >= NEVER {
                self.wait(guard);
                return TimedOut(false);
            }
            // The lock is free for a moment; then the time is over.
            guard.inner = None;
            shuttle::thread::yield_now();
            guard.inner = Some(guard.mutex.lock().unwrap());
            TimedOut(true)
        }
    }

    impl TimedOut {
        pub(crate) fn timed_out(&self) -> bool {
            self.0
        }
    }
}
