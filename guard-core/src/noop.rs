//! A guard that always lets in.

use std::sync::Arc;

use crate::error::GuardError;
use crate::guard::SandboxExecutionGuard;
use crate::interrupt::Observation;
use crate::key::SandboxIsolationKey;
use crate::lease::SandboxLease;
use crate::token::{LeaseToken, OwnerLabel};
use crate::wait::Wait;
use crate::waiter::{Grant, Verdict, Waiter};

/// Always lets in: for sandboxes that nobody shares, and for tests of other things.
///
/// Like every entry, one here takes an interrupt that is pending.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopGuard;

impl SandboxExecutionGuard for NoopGuard {
    fn enter(&self, key: &SandboxIsolationKey, wait: Wait<'_>) -> Result<SandboxLease, GuardError> {
        let token = LeaseToken::generate(&OwnerLabel::default());
        let waiter = Arc::new(Waiter::new(token.clone()));
        let _observation = Observation::start(&waiter, wait.interrupt());
        match waiter.conclude(Verdict::Granted(Grant::of_nothing(token))) {
            Verdict::Interrupted => Err(GuardError::Interrupted {
                slot: key.to_string(),
            }),
            _ => Ok(SandboxLease::noop()),
        }
    }
}
