//! Replicas that must have what was written before it counts.
//!
//! A write that too few replicas have acknowledged stands on the master, where nobody takes it back here: another
//! operation of the same token may have been granted meanwhile. It is *unknown* to the guard, who asks again with
//! the same token, or frees the slot of it.

use std::time::Duration;

use guard_core::StoreError;
use redis::cmd;

use crate::connection::exchange::Exchange;
use crate::protocol::answer::Role;
use crate::protocol::error::classify;
use crate::protocol::failure::Failure;

/// The share of the time that is left which the answer to `WAIT` has for its way.
const FOR_THE_WAY: u32 = 5;
/// The longest that a server is asked to wait: it adds that to its clock.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How many replicas must acknowledge a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas(pub(crate) u32);

impl Replicas {
    /// Waits until enough replicas have whatever was written on this connection, for no longer than the operation
    /// may last.
    pub(crate) fn acknowledge(self, exchange: &mut Exchange<'_>) -> Result<(), Failure> {
        let Self(wanted) = self;
        if wanted == 0 {
            return Ok(());
        }
        let remaining = exchange.budget.remaining();
        let patience = remaining.saturating_sub(remaining / FOR_THE_WAY);
        // To the server, zero is for ever.
        let millis = patience
            .clamp(Duration::from_millis(1), LONGEST)
            .as_millis();
        match exchange.call::<u64>(cmd("WAIT").arg(wanted).arg(millis.to_string())) {
            Ok(have) if have >= u64::from(wanted) => Ok(()),
            Ok(have) => Err(Failure::Unreplicated(StoreError::transient(format!(
                "{have} replicas have acknowledged in time, `min_replicas` asks for {wanted}"
            )))),
            // The write has been executed, whatever keeps us from waiting. A server that is a replica by now refuses: then
            // another one is the master.
            Err(Failure::Answer(error)) => Err(match exchange.role() {
                Ok(Role::Replica(_)) => Failure::Demoted,
                _ => Failure::Unreplicated(classify("waiting for replicas", error)),
            }),
            Err(Failure::NotSent(error)) => Err(Failure::Unreplicated(error)),
            Err(failure) => Err(failure),
        }
    }
}
