//! One operation of the store.

use guard_core::{Budget, LeaseToken, StoreError};

use crate::protocol::failure::Failure;

/// One operation of the store, over however many tries.
pub(crate) struct Operation<'a> {
    pub(crate) name: &'static str,
    pub(crate) budget: Budget,
    /// The token that it may put into a slot.
    pub(crate) brings: Option<&'a LeaseToken>,
    /// Whether a try of it went unanswered: it may have been executed, or may yet be.
    pub(crate) unanswered: bool,
    /// Whether the next try goes to the node of a cluster that is only about to get the slot.
    pub(crate) asking: bool,
}

impl<'a> Operation<'a> {
    pub(crate) const fn new(
        name: &'static str,
        budget: Budget,
        brings: Option<&'a LeaseToken>,
    ) -> Self {
        Self {
            name,
            budget,
            brings,
            unanswered: false,
            asking: false,
        }
    }

    /// What the guard is told when the last try failed.
    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        let error = failure.into_store_error(self.name);
        if self.unanswered {
            // The last try may have a definite answer, the one before has none.
            error.with_unknown_outcome()
        } else {
            error
        }
    }
}
