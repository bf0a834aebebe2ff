//! The servers of a store, and which of them has a slot.

#[cfg(feature = "cluster")]
use std::sync::Arc;

use guard_core::{Budget, LeaseToken, NodeId, SlotName, StoreError};

#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
#[cfg(feature = "cluster")]
use crate::fence::hash_slot_of;
use crate::links::Links;
use crate::session::{Failure, Operation, Session};

/// One server, or one master at a time, or a cluster.
pub(crate) enum Servers {
    One(Links),
    #[cfg(feature = "cluster")]
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// Does an idempotent operation on the server that has `slot`. `brings` is the token that the operation may
    /// put into it.
    pub(crate) fn operate<T>(
        &self,
        slot: &SlotName,
        name: &'static str,
        budget: Budget,
        brings: Option<&LeaseToken>,
        work: impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut operation = Operation::new(name, budget, brings);
        let result = match (self, slot) {
            (Self::One(links), _) => links.operate(&mut operation, work),
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), slot) => cluster.operate(slot, &mut operation, work),
        };
        result.map_err(|failure| operation.error(failure))
    }

    /// Tells apart the servers that fail apart.
    pub(crate) fn node(&self, slot: &SlotName) -> NodeId {
        match (self, slot) {
            (Self::One(_), _) => NodeId::default(),
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), slot) => cluster.node(slot),
        }
    }

    /// One script can work on slots with the same number.
    pub(crate) fn group(&self, slot: &SlotName) -> u16 {
        match (self, slot) {
            (Self::One(_), _) => 0,
            #[cfg(feature = "cluster")]
            (Self::Cluster(_), slot) => hash_slot_of(slot),
        }
    }
}
