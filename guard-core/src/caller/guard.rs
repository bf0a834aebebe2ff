//! What callers use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::error::GuardError;
use crate::base::key::SandboxIsolationKey;
use crate::caller::lease::SandboxLease;
use crate::caller::wait::Wait;
use crate::store::holder::Holder;

/// Hands out one lease a sandbox slot, across threads, processes and hosts.
///
/// Services hold an `Arc<dyn SandboxExecutionGuard>`, chosen at start. [`enter`](Self::enter) is the one
/// required method.
///
/// # Which call
///
/// | call | waits | busy is |
/// |---|---|---|
/// | [`try_enter`](Self::try_enter) | until acquired or interrupted | waited for |
/// | [`try_enter_for`](Self::try_enter_for) | at most a time | [`GuardError::TimedOut`] |
/// | [`try_enter_until`](Self::try_enter_until) | until a deadline | [`GuardError::TimedOut`] |
/// | [`try_enter_now`](Self::try_enter_now) | not at all | `Ok(None)` |
/// | [`enter`](Self::enter) | as its [`Wait`] says | [`GuardError::TimedOut`] |
///
/// A call returns within its deadline plus the guard's operation timeout.
pub trait SandboxExecutionGuard: Send + Sync {
    /// Enters the slot of `key`, waiting as `wait` says.
    ///
    /// An entry that finds nobody of its process queued before it makes at least one attempt, whatever its
    /// deadline, unless an interrupt was pending. Where others queue, the slot counts as held.
    ///
    /// # Errors
    ///
    /// - [`GuardError::Interrupted`]: the wait's interrupt or the thread's own came;
    /// - [`GuardError::TimedOut`]: somebody else holds the slot, or queues for it;
    /// - [`GuardError::Closed`]: the guard was closed;
    /// - [`GuardError::Store`]: the store failed for longer than is tolerated, or for good, or was failing
    ///   when the deadline came.
    fn enter(&self, key: &SandboxIsolationKey, wait: Wait<'_>) -> Result<SandboxLease, GuardError>;

    /// **Blocks** until the slot is acquired or the thread is interrupted. The name is that of the
    /// contract that other implementations share.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter), without `TimedOut`.
    fn try_enter(&self, key: &SandboxIsolationKey) -> Result<SandboxLease, GuardError> {
        self.enter(key, Wait::forever())
    }

    /// Waits at most `timeout` for the slot.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    fn try_enter_for(
        &self,
        key: &SandboxIsolationKey,
        timeout: Duration,
    ) -> Result<SandboxLease, GuardError> {
        self.enter(key, Wait::at_most(timeout))
    }

    /// Waits for the slot until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    fn try_enter_until(
        &self,
        key: &SandboxIsolationKey,
        deadline: Instant,
    ) -> Result<SandboxLease, GuardError> {
        self.enter(key, Wait::until(deadline))
    }

    /// Enters the slot if it is free; `None` if it is not.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter), without `TimedOut`.
    fn try_enter_now(&self, key: &SandboxIsolationKey) -> Result<Option<SandboxLease>, GuardError> {
        match self.enter(key, Wait::not_at_all()) {
            Ok(lease) => Ok(Some(lease)),
            Err(GuardError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells operators who holds the slot of `key`; `None` if nobody does, and from guards that cannot
    /// tell.
    ///
    /// # Errors
    ///
    /// [`GuardError::Store`] when the store does not answer.
    fn holder(&self, key: &SandboxIsolationKey) -> Result<Option<Holder>, GuardError> {
        let _ = key;
        Ok(None)
    }

    /// Ends whoever's lease of `key`'s slot there is, for operators: a holder that hangs, or one that is known
    /// to be dead. Answers whose lease it was; `None` if there was none, and from guards that cannot. A
    /// lease of this guard itself is lost at once. A holder elsewhere finds its lease lost at its next renewal, or
    /// at once where it hears of it; else at its TTL.
    ///
    /// # Errors
    ///
    /// [`GuardError::Store`] when the store does not answer.
    fn force_release(&self, key: &SandboxIsolationKey) -> Result<Option<Holder>, GuardError> {
        let _ = key;
        Ok(None)
    }

    /// Wakes all waiters with [`GuardError::Closed`] and takes no more entries. Leases in hand stay good.
    fn close(&self) {}
}

/// Forwards every method, those with a default too, so that no override is lost on the way.
macro_rules! forward {
    ($($outer:ty),*) => { $(
        #[deny(clippy::missing_trait_methods)]
        impl<G: SandboxExecutionGuard + ?Sized> SandboxExecutionGuard for $outer {
            fn enter(&self, key: &SandboxIsolationKey, wait: Wait<'_>) -> Result<SandboxLease, GuardError> {
                (**self).enter(key, wait)
            }
            fn try_enter(&self, key: &SandboxIsolationKey) -> Result<SandboxLease, GuardError> {
                (**self).try_enter(key)
            }
            fn try_enter_for(&self, key: &SandboxIsolationKey, timeout: Duration) -> Result<SandboxLease, GuardError> {
                (**self).try_enter_for(key, timeout)
            }
            fn try_enter_until(&self, key: &SandboxIsolationKey, deadline: Instant) -> Result<SandboxLease, GuardError> {
                (**self).try_enter_until(key, deadline)
            }
            fn try_enter_now(&self, key: &SandboxIsolationKey) -> Result<Option<SandboxLease>, GuardError> {
                (**self).try_enter_now(key)
            }
            fn holder(&self, key: &SandboxIsolationKey) -> Result<Option<Holder>, GuardError> {
                (**self).holder(key)
            }
            fn force_release(
                &self,
                key: &SandboxIsolationKey,
            ) -> Result<Option<Holder>, GuardError> {
                (**self).force_release(key)
            }
            fn close(&self) {
                (**self).close();
            }
        }
    )* };
}

forward!(&G, Box<G>, Arc<G>);

/// Conveniences for every guard, `dyn` ones included.
pub trait SandboxExecutionGuardExt: SandboxExecutionGuard {
    /// Enters the slot, runs `work` with the lease, and closes the lease whatever happens: on return, on
    /// error and on unwinding.
    ///
    /// **`Ok` does not say that the lease was held to the end.** It hands on what `work` answered, and a lease can be
    /// lost while `work` runs: it expired, or its slot was deleted. Ask [`SandboxLease::is_held`] as the last thing
    /// before you persist, and let `work` fail when it is not; [`SandboxLease::on_lost`] tells earlier.
    ///
    /// ```
    /// use guard_core::{NoopGuard, SandboxExecutionGuard, SandboxExecutionGuardExt, SandboxIsolationKey, Wait};
    /// use std::sync::Arc;
    ///
    /// let guard: Arc<dyn SandboxExecutionGuard> = Arc::new(NoopGuard);
    /// let answer = guard.run(&SandboxIsolationKey::global(), Wait::forever(), |lease| {
    ///     assert!(lease.is_held());
    ///     42
    /// })?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), guard_core::GuardError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`SandboxExecutionGuard::enter`]; `work` is then not run.
    fn run<T>(
        &self,
        key: &SandboxIsolationKey,
        wait: Wait<'_>,
        work: impl FnOnce(&SandboxLease) -> T,
    ) -> Result<T, GuardError> {
        let lease = self.enter(key, wait)?;
        Ok(work(&lease))
    }
}

impl<G: SandboxExecutionGuard + ?Sized> SandboxExecutionGuardExt for G {}
