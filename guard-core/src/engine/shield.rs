//! The store as the engine asks it.

use std::time::Duration;

use crate::base::error::StoreError;
use crate::base::panics::shielded;
use crate::base::slot::SlotName;
use crate::base::time::{Budget, LeaseTtl};
use crate::base::token::LeaseToken;
use crate::store::contract::{
    Acquired, Capabilities, HandedOver, LeaseStore, NodeId, Released, Renewed,
};
use crate::store::holder::Holder;
use crate::store::watch::{Subscriber, Watch};

/// A store as the engine asks it: one that panics has failed, and nobody knows what it has done; one that answers
/// for too few leases has not answered for the others.
pub(crate) struct Shielded<S>(pub(crate) S);

fn ask<T>(step: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    shielded("the store", step)
        .unwrap_or_else(|| Err(StoreError::permanent("the store panicked").with_unknown_outcome()))
}

impl<S: LeaseStore> LeaseStore for Shielded<S> {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        ask(|| self.0.acquire(slot, token, ttl, budget))
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        ask(|| self.0.renew(slot, token, ttl, budget))
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        ask(|| self.0.release(slot, token, budget))
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        ask(|| self.0.hand_over(slot, from, to, ttl, budget))
    }

    fn in_doubt(&self, token: &LeaseToken) -> bool {
        shielded("the store", || self.0.in_doubt(token)).unwrap_or(true)
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        ask(|| self.0.holder(slot, budget))
    }

    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        let renew = || Ok(self.0.renew_many(leases, ttl, budget));
        let missing = || StoreError::transient("the store did not answer for this lease");
        match ask(renew) {
            Ok(mut answers) => {
                answers.resize_with(leases.len(), || Err(missing().with_unknown_outcome()));
                answers
            }
            Err(error) => vec![Err(error); leases.len()],
        }
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        shielded("the store", || self.0.watch(slot, subscriber)).flatten()
    }

    fn node(&self, slot: &SlotName) -> NodeId {
        shielded("the store", || self.0.node(slot)).unwrap_or_default()
    }

    fn cut_off(&self) {
        shielded("the store", || self.0.cut_off());
    }

    fn capabilities(&self) -> Capabilities {
        shielded("the store", || self.0.capabilities())
            .unwrap_or_else(|| Capabilities::new(Duration::MAX))
    }
}
