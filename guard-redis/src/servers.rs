//! The servers of a store, and which of them has a slot.

use std::sync::Arc;

use guard_core::{Budget, LeaseToken, NodeId, SlotName, StoreError, Subscriber, Watch};

#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::failure::Failure;
#[cfg(feature = "cluster")]
use crate::fence::hash_slot_of;
use crate::links::Links;
use crate::route::Route;
#[cfg(feature = "sentinel")]
use crate::sentinel::news;
use crate::session::{Operation, Session};
use crate::wakeups::{LineSettings, WakeupLine};
#[cfg(feature = "sentinel")]
use crate::worker::Worker;

/// The connections to one server, or to whichever is the master.
pub(crate) struct Server {
    pub(crate) links: Links,
    pub(crate) wakeups: WakeupLine,
    /// Listens to the sentinels, if there are any.
    #[cfg(feature = "sentinel")]
    pub(crate) news: Worker,
}

impl Server {
    pub(crate) fn new(links: Links, route: &Route, line: LineSettings) -> Arc<Self> {
        Arc::new(Self {
            links,
            #[cfg(feature = "sentinel")]
            news: Worker::new(news::THREAD_NAME, line.grace),
            wakeups: WakeupLine::new(route, line),
        })
    }

    /// Gives up every connection: another server is the master now.
    #[cfg(feature = "sentinel")]
    pub(crate) fn distrust(&self) {
        self.links.distrust();
        self.wakeups.distrust();
    }
}

#[cfg(feature = "sentinel")]
impl Drop for Server {
    /// Both threads are waited for: let them end together.
    fn drop(&mut self) {
        self.wakeups.stop();
        self.news.stop();
    }
}

/// One server, or one master at a time, or a cluster.
pub(crate) enum Servers {
    One(Arc<Server>),
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
            (Self::One(server), _) => server.links.operate(&mut operation, work),
            #[cfg(feature = "cluster")]
            (Self::Cluster(cluster), slot) => cluster.operate(slot, &mut operation, work),
        };
        result.map_err(|failure| operation.error(failure))
    }

    /// The server that has `slot`, if a look there would be told of the slot's next change.
    pub(crate) fn watching(&self, slot: &SlotName) -> Option<Arc<Server>> {
        match self {
            Self::One(server) => server.wakeups.is_watched(slot).then(|| Arc::clone(server)),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.watching(slot),
        }
    }

    /// Registers an interest in a slot; `None` where the server does not tell.
    pub(crate) fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        match self {
            Self::One(server) => server.wakeups.watch(slot, subscriber),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.watch(slot, subscriber),
        }
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
