//! What a store implements: small steps that never wait for a holder.

use std::time::Duration;

use crate::base::error::StoreError;
use crate::base::slot::SlotName;
use crate::base::time::{Budget, LeaseTtl};
use crate::base::token::{FencingToken, LeaseToken};
use crate::store::holder::Holder;
use crate::store::watch::{Subscriber, Watch};

/// A backend that keeps leases: Redis, memory, a database.
///
/// Every operation is one step that ends within its [`Budget`] and never waits for a holder. Waiting,
/// fairness, deadlines, renewal, retries and logging are the business of
/// [`LeaseGuard`](crate::LeaseGuard).
///
/// # Contract
///
/// - **Idempotent for a token.** [`acquire`](Self::acquire) asked again with the same token grants what
///   it already granted, with the same fencing token and a fresh TTL. [`hand_over`](Self::hand_over)
///   that finds `to` in the slot has already happened.
/// - **Atomic.** [`renew`](Self::renew), [`release`](Self::release) and `hand_over` compare the token and
///   act in one step.
/// - **`release` is final.** Once it has answered, the token does not hold the slot and never will again,
///   whatever command of that token was still under way. A store that cannot promise this yet answers
///   with a transient error, and is asked again. A `hand_over` that has answered is as final for `from`.
/// - **Errors are classified** by the store: transient or permanent, and whether the operation may have
///   taken effect ([`StoreError`]). Only somebody else's token is [`Acquired::Held`]; no error reads as
///   held or as free.
/// - **Foreign programs** may share the slots: a token may be any string, without a TTL too. A slot that
///   carries something else than a string is a permanent error and is left as it is.
/// - **A store whose slots do not expire** ([`Capabilities::expires`]), because a lease lives in a session of
///   its holder, keeps that session by the token; ending it is how its `release` is final. The guard takes
///   over what such a store cannot do: it frees the slot at the lease's own deadline, and asks `renew` often
///   enough to notice that the session has ended. [`Renewed::NotHeld`] says that it definitely has.
/// - **Nothing else stays behind** in the store when a lease is released, but, with fencing, its counter.
///
/// The suite in the package `guard-conformance` tests a store against all of this.
pub trait LeaseStore: Send + Sync + 'static {
    /// Takes the slot for `token` if it is free or already the token's own.
    ///
    /// # Errors
    ///
    /// See the contract above.
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError>;

    /// Gives the lease a fresh TTL if `token` holds the slot. Where slots do not expire, this only tells
    /// whether it does.
    ///
    /// # Errors
    ///
    /// See the contract above.
    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError>;

    /// Frees the slot if `token` holds it, and makes sure that it never will again. The token of a holder that
    /// [`holder`](Self::holder) told is as good here as its own, whatever it is made of.
    ///
    /// # Errors
    ///
    /// See the contract above.
    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError>;

    /// Passes the slot from one token to another, with a fresh TTL and a new fencing token, if `from`
    /// holds it; if `to` holds it already, answers as the first time, with a fresh TTL.
    ///
    /// # Errors
    ///
    /// See the contract above.
    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError>;

    /// Whether a command that may put `token` into a slot went unanswered and may still take effect, also
    /// after a later one was answered. Such a token is released when its entry ends without a lease. The
    /// default is no: then only what an operation's error says counts.
    fn in_doubt(&self, token: &LeaseToken) -> bool {
        let _ = token;
        false
    }

    /// Who holds the slot; `None` if nobody does.
    ///
    /// # Errors
    ///
    /// See the contract above.
    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError>;

    /// Renews many leases, in as few steps as the store can; the answers are in the order of `leases`.
    /// The default renews one after the other.
    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        leases
            .iter()
            .map(|(slot, token)| self.renew(slot, token, ttl, budget))
            .collect()
    }

    /// Asks for `subscriber` to be woken when the slot changes, until the answer is dropped. `None` means
    /// that this store cannot tell; the guard then looks at its retry interval. This is the default.
    ///
    /// Entries that wait for the slot ask, and, where slots expire, its holder does, to learn of its loss.
    ///
    /// A hint: it may come without a change, and a change may come without it.
    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        let _ = (slot, subscriber);
        None
    }

    /// Tells apart the servers that fail apart: slots with the same number fail together. The default is
    /// one number for all.
    fn node(&self, slot: &SlotName) -> NodeId {
        let _ = slot;
        NodeId::default()
    }

    /// Ends what is under way, with an error: the guard has ended, and the time that it waits for its threads is over.
    /// A store that others have a handle of goes on. The default lets operations end by their budget.
    fn cut_off(&self) {}

    /// What this store can do.
    fn capabilities(&self) -> Capabilities;
}

/// The answer to [`LeaseStore::acquire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The token holds the slot, with a fresh TTL.
    Granted {
        /// The lease's fencing token, from stores that number their leases.
        fencing: Option<FencingToken>,
    },
    /// Another token holds the slot.
    Held {
        /// How long it still does; `None` if it has no TTL, as a foreign one may.
        remaining: Option<Duration>,
    },
}

/// The answer to [`LeaseStore::renew`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease has a fresh TTL.
    Renewed,
    /// The token does not hold the slot.
    NotHeld,
}

/// The answer to [`LeaseStore::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The slot was the token's, and is free.
    Released,
    /// The token did not hold the slot.
    NotHeld,
}

/// The answer to [`LeaseStore::hand_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedOver {
    /// The receiver's token holds the slot, with a fresh TTL.
    Granted {
        /// The receiver's fencing token, from stores that number their leases.
        fencing: Option<FencingToken>,
    },
    /// Neither token holds the slot.
    NotHeld,
}

/// A number for a server that fails on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// What a store can do. The guard checks settings against it, and the suite chooses its cases by it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The longest TTL that the store can hold.
    pub max_ttl: Duration,
    /// Whether the store frees a slot by itself when the lease's TTL has passed. One that does not frees it
    /// when the session of its holder ends, and the guard frees it at the lease's deadline: the TTL is then
    /// how long a holder may keep the slot.
    pub expires: bool,
    /// Where slots do not expire: how long a holder may count on its lease without an answer from the store,
    /// which is less than the store takes to give up a session that it does not hear.
    pub silence: Duration,
    /// Whether leases are numbered.
    pub fencing: bool,
    /// Whether the store is shared by several processes.
    pub shared: bool,
    /// Whether programs that do not use this library can hold slots, and end the leases of others.
    pub foreign_holders: bool,
    /// Whether a slot carries text that such programs can read and replace: any token, with a TTL or without,
    /// or data that is no token.
    pub foreign_tokens: bool,
    /// Whether the store tells waiters when a slot changes.
    pub wakeups: bool,
}

impl Capabilities {
    /// A store that holds TTLs up to `max_ttl` and can do everything but number its leases.
    #[must_use]
    pub const fn new(max_ttl: Duration) -> Self {
        Self {
            max_ttl,
            expires: true,
            silence: Duration::MAX,
            fencing: false,
            shared: true,
            foreign_holders: true,
            foreign_tokens: true,
            wakeups: false,
        }
    }
}
