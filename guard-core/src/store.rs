//! What a store implements: small steps that never wait for a holder.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;
use crate::slot::SlotName;
use crate::text::printable;
use crate::token::{FencingToken, LeaseToken};
use crate::ttl::{Budget, LeaseTtl};
use crate::waker::Waker;

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

    /// Asks for `waker` to be woken when the slot changes, until the answer is dropped. `None` means
    /// that this store cannot tell; the guard then looks at its retry interval. This is the default.
    ///
    /// Entries that wait for the slot ask, and, where slots expire, its holder does, to learn of its loss.
    ///
    /// A hint: it may come without a change, and a change may come without it.
    fn watch(&self, slot: &SlotName, waker: &Waker) -> Option<Watch> {
        let _ = (slot, waker);
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

/// Who holds a slot, for operators.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    token: LeaseToken,
    remaining: Option<Duration>,
    owner: Option<String>,
    since: Option<SystemTime>,
    description: Option<String>,
}

impl Holder {
    /// The holder that wrote `token`, and how long it still has.
    #[must_use]
    pub const fn new(token: LeaseToken, remaining: Option<Duration>) -> Self {
        Self {
            token,
            remaining,
            owner: None,
            since: None,
            description: None,
        }
    }

    /// Adds how long the holder still has, where the store itself does not know.
    pub(crate) fn with_remaining(mut self, remaining: Duration) -> Self {
        self.remaining.get_or_insert(remaining);
        self
    }

    /// Adds the owner's label, for stores that keep it elsewhere than in the token.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Adds since when the holder has been there.
    #[must_use]
    pub const fn with_since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    /// Adds what else the store knows of the holder, such as the number of its session.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    pub(crate) const fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// The label that the holder's guard was built with; `None` without one. Of a foreign holder it is what
    /// the store shows as its name, if it does.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref().or_else(|| self.token.owner())
    }

    /// Since when the holder, or the session that it holds the slot with, has been there; `None` from stores
    /// that do not know.
    #[must_use]
    pub const fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// What else the store knows of the holder, such as the number of its session.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// A short form of the holder's token, enough to tell holders apart.
    #[must_use]
    pub fn short_token(&self) -> String {
        self.token.short()
    }

    /// How long the holder still has; `None` if its lease has no TTL, as a foreign one may, or if only its own guard
    /// knows: with a database a slot is held until the holder's session ends.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("owner", &self.owner())
            .field("token", &self.token)
            .field("remaining", &self.remaining)
            .field("since", &self.since)
            .field("description", &self.description)
            .finish()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Anybody may have written it: it must forge no log line.
        let owner = printable(self.owner().unwrap_or("unknown owner"));
        match &self.description {
            Some(description) => write!(f, "{owner} ({}), ", printable(description))?,
            None => write!(f, "{owner} ({}), ", self.short_token())?,
        }
        match (self.remaining, &self.description) {
            (Some(remaining), _) => write!(f, "{remaining:?} left"),
            (None, Some(_)) => f.write_str("until its session ends"),
            (None, None) => f.write_str("no TTL"),
        }
    }
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

/// An interest in a slot's changes; dropping it ends it.
pub trait Registration: Send {
    /// Whether changes are told at present. While they are not the guard looks at its retry interval. The
    /// store wakes the waiter when this turns.
    fn is_healthy(&self) -> bool {
        true
    }

    /// Does what the end of the registration takes at the store, within the budget, which may be what a failed
    /// look has left; what cannot be done in time is done later. The guard calls it before it drops a waiter's
    /// registration.
    fn end(&mut self, budget: Budget) {
        let _ = budget;
    }
}

/// A registration made by [`LeaseStore::watch`]; dropping it ends it.
pub struct Watch(Box<dyn Registration>);

impl Watch {
    /// Wraps a registration.
    #[must_use]
    pub fn new(registration: impl Registration + 'static) -> Self {
        Self(Box::new(registration))
    }

    /// Whether changes are told at present.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.0.is_healthy()
    }

    /// Ends it within the budget.
    pub fn end(mut self, budget: Budget) {
        self.0.end(budget);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
