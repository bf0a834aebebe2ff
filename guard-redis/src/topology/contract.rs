//! What the store asks of a topology, and the builder of whoever opens one.

use std::sync::Arc;

use guard_core::{
    Budget, ConfigError, LeaseToken, NodeId, SlotName, StoreError, Subscriber, Watch,
};

use crate::connection::exchange::Exchange;
use crate::connection::manager::RedisConnectionManager;
use crate::connection::operation::Operation;
use crate::protocol::failure::Failure;
use crate::topology::server::Server;
use crate::topology::settings::Settings;

/// The servers of a store, and which of them has a slot.
pub(crate) trait Topology: Send + Sync {
    /// Does an idempotent operation on the server that has `slot`, or that gets it meanwhile.
    fn operate(
        &self,
        slot: &SlotName,
        operation: &mut Operation<'_>,
        work: &mut dyn FnMut(&mut Exchange<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// The server that has `slot`, if a look there would be told of the slot's next change.
    fn watching(&self, slot: &SlotName) -> Option<Arc<Server>>;

    /// Registers an interest in a slot, whichever server has it; `None` where none tells.
    fn watch(self: Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch>;

    /// Tells apart the servers that fail apart.
    fn node(&self, _slot: &SlotName) -> NodeId {
        NodeId::default()
    }

    /// One script can work on slots with the same number.
    fn group(&self, _slot: &SlotName) -> u16 {
        0
    }

    /// Ends what is under way on connections of the store's own.
    fn cut_off(&self);
}

impl dyn Topology {
    /// Does an idempotent operation that has a result on the server that has `slot`. `brings` is the token that the
    /// operation may put into it.
    pub(crate) fn ask<T>(
        &self,
        slot: &SlotName,
        name: &'static str,
        budget: Budget,
        brings: Option<&LeaseToken>,
        work: impl Fn(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut operation = Operation::new(name, budget, brings);
        let mut answer = None;
        let mut keep = |exchange: &mut Exchange<'_>| {
            answer = Some(work(exchange)?);
            Ok(())
        };
        let result = self.operate(slot, &mut operation, &mut keep);
        match (result, answer) {
            (Ok(()), Some(answer)) => Ok(answer),
            (Ok(()), None) => Err(StoreError::permanent("the operation was not done")),
            (Err(failure), _) => Err(operation.error(failure)),
        }
    }
}

/// Where a builder is told to find the leases.
pub(crate) trait Source: Send + Sync {
    /// Connects, within the operation timeout.
    fn open(self: Box<Self>, settings: Settings) -> Result<Arc<dyn Topology>, ConfigError>;

    /// What opens connections for a pool of the user's.
    fn manager(self: Box<Self>, _: &Settings) -> Result<RedisConnectionManager, ConfigError> {
        let reason = "a pool is for one server that has an address";
        Err(ConfigError::setting("address", reason))
    }

    /// The addresses without credentials, and the database: `database` if it was set, else the address's.
    fn shown(&self, database: Option<i64>) -> String;
}
