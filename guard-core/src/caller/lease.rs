//! The right to use a slot, as callers hold it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::base::error::GuardError;
use crate::base::panics::{Callback, call};
use crate::base::token::{FencingToken, LeaseToken, OwnerLabel};

/// What a lease is made of: a held slot, or a closure.
pub(crate) trait LeaseBody: Send + Sync {
    fn close(&self) -> CloseOutcome;
    fn is_held(&self) -> bool;
    fn remaining(&self) -> Duration;
    fn renew(&self) -> Result<(), GuardError>;
    fn token(&self) -> &LeaseToken;
    fn fencing_token(&self) -> Option<FencingToken>;
    fn held_for(&self) -> Duration;
    fn on_lost(self: Arc<Self>, callback: Callback) -> Result<(), GuardError>;
}

/// The right to use a sandbox slot, from entering to closing, bounded by its TTL.
///
/// Dropping a lease closes it, and so does a panic that unwinds past it. Keep it in a variable: `let _ =
/// guard.try_enter(…)` closes at once. A process that aborts does not close; the slot then comes free when the TTL
/// ends, or with a database at once. A lease that is leaked, by `std::mem::forget` or by a callback of its own that
/// captures it, is open for as long as the process lives: a guard with `auto_renew` renews it up to `max_hold`, and
/// without `max_hold` for ever, also after the guard itself was dropped.
///
/// ```
/// use guard_core::{NoopGuard, SandboxExecutionGuard, SandboxIsolationKey};
///
/// let guard = NoopGuard;
/// let lease = guard.try_enter(&SandboxIsolationKey::global())?;
/// assert!(lease.is_held());
/// lease.close();
/// assert!(!lease.is_held());
/// # Ok::<(), guard_core::GuardError>(())
/// ```
#[must_use = "dropping a lease closes it at once"]
pub struct SandboxLease {
    body: Arc<dyn LeaseBody>,
}

/// What [`SandboxLease::close`] did; callers may ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The slot is free.
    Released,
    /// The lease was closed before.
    AlreadyClosed,
    /// The slot was no longer this lease's: it had expired, or somebody deleted or replaced it.
    AlreadyGone,
    /// The store could not be reached; the guard goes on releasing in the background.
    Deferred,
}

impl SandboxLease {
    pub(crate) fn new(body: Arc<dyn LeaseBody>) -> Self {
        Self { body }
    }

    /// A lease that calls `f` once when it is closed, for guards that need no store. It never expires. A
    /// panic of `f` is caught and logged.
    pub fn on_close(f: impl FnOnce() + Send + 'static) -> Self {
        Self::new(Arc::new(ClosureLease::new(Box::new(f))))
    }

    /// A lease of nothing: closing it does nothing.
    pub fn noop() -> Self {
        Self::on_close(|| {})
    }

    /// Gives the slot back. Idempotent, callable from any thread, never panics and never fails: a store
    /// that cannot be reached is retried in the background. It takes at most the guard's operation timeout.
    pub fn close(&self) -> CloseOutcome {
        self.body.close()
    }

    /// Whether the lease may be relied on now: granted, not closed, not lost, and before its local
    /// deadline, which is a little earlier than the store's.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.body.is_held()
    }

    /// How much longer the lease may be relied on if it is not renewed; zero once it is not held, and
    /// [`Duration::MAX`] for leases that do not expire.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.body.remaining()
    }

    /// Gives the lease a fresh TTL.
    ///
    /// # Errors
    ///
    /// [`GuardError::NotHeld`] when the lease is closed or lost, now or by this answer;
    /// [`GuardError::Store`] when the store did not answer, in which case the lease stays what it was.
    pub fn renew(&self) -> Result<(), GuardError> {
        self.body.renew()
    }

    /// The token in the slot. Whoever knows it can release the lease: keep it out of logs.
    #[must_use]
    pub fn token(&self) -> &LeaseToken {
        self.body.token()
    }

    /// A number that grows with every lease of this slot, where the store numbers its leases.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.body.fencing_token()
    }

    /// How long the lease has been held, or was held until it was closed or lost.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.body.held_for()
    }

    /// Calls `callback` once if the lease is lost before it is closed: it expired, or a renewal or a look found
    /// another token in the slot, or none, or its guard's `force_release` ended it. It runs on the guard's callback
    /// thread and may do anything; one that does not return keeps the others from running. On a lease that is already lost it runs at once, on one that is closed never.
    ///
    /// # Errors
    ///
    /// [`GuardError::Thread`] when the callback thread cannot be started, and [`GuardError::Forked`] in a child
    /// that inherited the lease.
    pub fn on_lost(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), GuardError> {
        Arc::clone(&self.body).on_lost(Box::new(callback))
    }
}

impl Drop for SandboxLease {
    fn drop(&mut self) {
        self.body.close();
    }
}

impl fmt::Debug for SandboxLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxLease")
            .field("token", self.token())
            .field("held", &self.is_held())
            .field("remaining", &self.remaining())
            .finish()
    }
}

/// A lease that needs no store.
struct ClosureLease {
    token: LeaseToken,
    entered: Instant,
    /// Protects whether the lease is open, and what closes it.
    phase: Mutex<Phase>,
}

enum Phase {
    Open(Callback),
    Closed(Duration),
}

impl ClosureLease {
    fn new(close: Callback) -> Self {
        Self {
            token: LeaseToken::generate(&OwnerLabel::default()),
            entered: Instant::now(),
            phase: Mutex::new(Phase::Open(close)),
        }
    }
}

impl LeaseBody for ClosureLease {
    fn close(&self) -> CloseOutcome {
        let mut phase = self.phase.lock();
        if matches!(*phase, Phase::Closed(_)) {
            return CloseOutcome::AlreadyClosed;
        }
        let before = std::mem::replace(&mut *phase, Phase::Closed(self.entered.elapsed()));
        drop(phase);
        if let Phase::Open(close) = before {
            call(close);
        }
        CloseOutcome::Released
    }

    fn is_held(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Open(_))
    }

    fn remaining(&self) -> Duration {
        if self.is_held() {
            Duration::MAX
        } else {
            Duration::ZERO
        }
    }

    fn renew(&self) -> Result<(), GuardError> {
        if self.is_held() {
            Ok(())
        } else {
            Err(GuardError::NotHeld {
                slot: "(none)".to_owned(),
            })
        }
    }

    fn token(&self) -> &LeaseToken {
        &self.token
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        None
    }

    fn held_for(&self) -> Duration {
        match *self.phase.lock() {
            Phase::Open(_) => self.entered.elapsed(),
            Phase::Closed(held_for) => held_for,
        }
    }

    fn on_lost(self: Arc<Self>, _: Callback) -> Result<(), GuardError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_closure_runs_once_however_often_the_lease_is_closed() {
        let calls = Arc::new(AtomicU32::new(0));
        let lease = {
            let calls = Arc::clone(&calls);
            SandboxLease::on_close(move || {
                calls.fetch_add(1, Ordering::Relaxed);
            })
        };
        assert!(lease.is_held() && lease.renew().is_ok());
        assert_eq!(lease.close(), CloseOutcome::Released);
        assert_eq!(lease.close(), CloseOutcome::AlreadyClosed);
        assert!(!lease.is_held() && lease.renew().is_err());
        drop(lease);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_panicking_closure_harms_nobody() {
        let lease = SandboxLease::on_close(|| panic!("on purpose"));
        assert_eq!(lease.close(), CloseOutcome::Released);
    }
}
