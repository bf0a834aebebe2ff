//! A guard that always lets in.

use crate::base::error::GuardError;
use crate::base::key::SandboxIsolationKey;
use crate::caller::guard::SandboxExecutionGuard;
use crate::caller::interrupt::Interrupt;
use crate::caller::lease::SandboxLease;
use crate::caller::wait::Wait;

/// Always lets in: for sandboxes that nobody shares, and for tests of other things.
///
/// Like every entry, one here takes an interrupt that is pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopGuard;

impl SandboxExecutionGuard for NoopGuard {
    fn enter(&self, key: &SandboxIsolationKey, wait: Wait<'_>) -> Result<SandboxLease, GuardError> {
        let given = wait.interrupt().is_some_and(Interrupt::take);
        if given || Interrupt::current().take() {
            return Err(GuardError::Interrupted {
                slot: key.to_string(),
            });
        }
        Ok(SandboxLease::noop())
    }
}
