//! Ending a wait from another thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::sync::{AtomicBool, Mutex, thread_local};

/// A wait that an interrupt can end.
pub(crate) trait Interruptible: Send + Sync {
    /// Ends the wait, unless something else has; answers whether it was the interrupt.
    fn interrupt(&self) -> bool;
}

/// Ends the waits that observe it.
///
/// A handle is cheap to clone and may be used from any thread. [`interrupt`](Self::interrupt) ends every
/// wait that observes the handle at that moment. If there is none the interrupt stays pending, and the
/// next wait takes it before it touches even a free slot. Only the wait that reports an interrupt clears
/// it, so it never leaks into a later call. An entry that got its lease first leaves the interrupt pending.
///
/// ```
/// use guard_core::{GuardError, Interrupt, IsolationScope, SandboxExecutionGuard, SandboxIsolationKey, Wait};
/// # use guard_core::NoopGuard as AnyGuard;
///
/// let stop = Interrupt::new();
/// stop.interrupt();
/// assert!(stop.is_interrupted());
///
/// let guard = AnyGuard;
/// let key = SandboxIsolationKey::global();
/// let wait = Wait::forever().interruptible_by(&stop);
/// assert!(matches!(guard.enter(&key, wait), Err(GuardError::Interrupted { .. })));
/// assert!(guard.enter(&key, wait).is_ok(), "an interrupt is reported once");
/// ```
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether there is an interrupt that nobody took yet. Set only while every observer is already decided;
    /// changed under the lock, and read without it by those who only ask.
    pending: AtomicBool,
    /// Protects the entries that would take an interrupt now, and whether one is pending. Under the lock only
    /// the lock of a waiter, which is a leaf, is taken.
    observers: Mutex<Vec<Arc<dyn Interruptible>>>,
}

thread_local! {
    static CURRENT: Interrupt = Interrupt::new();
}

impl Interrupt {
    /// Makes a handle that no wait observes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The calling thread's own handle, which every wait of this thread observes. Clone it to another
    /// thread to interrupt this one.
    #[must_use]
    pub fn current() -> Self {
        // A thread that is past the end of its local storage gets a handle that nobody else can have.
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Ends every wait that observes this handle now, or else stays pending for the next one.
    pub fn interrupt(&self) {
        let observers = self.0.observers.lock();
        let mut taken = false;
        for waiter in &*observers {
            taken |= waiter.interrupt();
        }
        if !taken {
            self.0.pending.store(true, Ordering::SeqCst);
        }
    }

    /// Whether an interrupt is pending: none of the waits has taken it.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.pending.load(Ordering::SeqCst)
    }

    /// Takes a pending interrupt, for code that waits in its own way.
    pub fn take(&self) -> bool {
        let _observers = self.0.observers.lock();
        self.0.pending.swap(false, Ordering::SeqCst)
    }

    fn observe(&self, waiter: &Arc<dyn Interruptible>) {
        let mut observers = self.0.observers.lock();
        if self.is_interrupted() && waiter.interrupt() {
            self.0.pending.store(false, Ordering::SeqCst);
        }
        observers.push(Arc::clone(waiter));
    }

    fn ignore(&self, waiter: &Arc<dyn Interruptible>) {
        let mut observers = self.0.observers.lock();
        if let Some(at) = observers.iter().position(|w| Arc::ptr_eq(w, waiter)) {
            observers.swap_remove(at);
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("pending", &self.is_interrupted())
            .finish()
    }
}

/// Lets interrupts decide a waiter, as long as this lives.
pub(crate) struct Observation<'a> {
    waiter: Arc<dyn Interruptible>,
    given: Option<&'a Interrupt>,
    own: Interrupt,
}

impl<'a> Observation<'a> {
    /// Observes the handle passed to the wait and the thread's own, in this order: with both pending the
    /// passed one is reported and the other stays.
    pub(crate) fn start(waiter: Arc<dyn Interruptible>, given: Option<&'a Interrupt>) -> Self {
        let own = Interrupt::current();
        let given = given.filter(|given| !Arc::ptr_eq(&given.0, &own.0));
        if let Some(given) = given {
            given.observe(&waiter);
        }
        own.observe(&waiter);
        Self { waiter, given, own }
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        if let Some(given) = self.given {
            given.ignore(&self.waiter);
        }
        self.own.ignore(&self.waiter);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Something that waits until it is interrupted or gets what it waits for.
    #[derive(Default)]
    struct Waiting(std::sync::OnceLock<bool>);

    impl Interruptible for Waiting {
        fn interrupt(&self) -> bool {
            self.0.set(true).is_ok()
        }
    }

    fn waiter() -> Arc<Waiting> {
        Arc::default()
    }

    fn observe<'a>(waiter: &Arc<Waiting>, given: Option<&'a Interrupt>) -> Observation<'a> {
        let waiter: Arc<Waiting> = Arc::clone(waiter);
        Observation::start(waiter, given)
    }

    fn interrupted(waiter: &Waiting) -> bool {
        waiter.0.get() == Some(&true)
    }

    #[test]
    fn one_interrupt_ends_every_wait_that_observes_it_and_none_after() {
        let handle = Interrupt::new();
        let waiters = [(); 3].map(|()| waiter());
        let seen = waiters.each_ref().map(|w| observe(w, Some(&handle)));
        handle.interrupt();
        assert!(waiters.iter().all(|w| interrupted(w)));
        assert!(!handle.is_interrupted());
        drop(seen);
        let later = waiter();
        let _seen = observe(&later, Some(&handle));
        assert!(!interrupted(&later));
    }

    #[test]
    fn a_grant_recorded_first_leaves_the_interrupt_pending() {
        let handle = Interrupt::new();
        let waiter = waiter();
        let _seen = observe(&waiter, Some(&handle));
        assert!(waiter.0.set(false).is_ok());
        handle.interrupt();
        assert!(handle.is_interrupted() && !interrupted(&waiter));
        assert!(handle.take() && !handle.is_interrupted());
    }

    #[test]
    fn with_both_pending_the_passed_handle_is_reported_and_the_threads_own_stays() {
        let handle = Interrupt::new();
        handle.interrupt();
        Interrupt::current().interrupt();
        let waiter = waiter();
        drop(observe(&waiter, Some(&handle)));
        assert!(interrupted(&waiter) && !handle.is_interrupted());
        assert!(Interrupt::current().take());
    }

    #[test]
    fn the_threads_own_handle_may_be_passed_in() {
        let own = Interrupt::current();
        own.interrupt();
        let waiter = waiter();
        drop(observe(&waiter, Some(&own)));
        assert!(interrupted(&waiter) && !own.is_interrupted());
        assert!(own.0.observers.lock().is_empty());
    }
}
