//! The store contract on sessions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, ConfigError, HandedOver, Holder, LeaseStore, LeaseToken,
    LeaseTtl, Released, Renewed, SlotName, StoreError, Subscriber, Watch,
};

use crate::ghosts::Whose;
use crate::inner::{Inner, released, renewed};
use crate::leases::Leases;
use crate::links::Links;
use crate::process::Process;
use crate::reactor::wait_all;
use crate::session::{Database, Failure, LockHolder, Session as _, SessionId};
use crate::waits::Waits;

/// The default of `pool_size`: 8.
pub const DEFAULT_POOL_SIZE: u32 = 8;
/// The default of `wait_connections`: 4.
pub const DEFAULT_WAIT_CONNECTIONS: u32 = 4;

/// The longest TTL: only the guard's own clock has to show it.
const MAX_TTL: Duration = Duration::from_secs(1 << 40);

/// The settings of a [`SessionStore`].
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// How many operations may use a session at the same moment, and how many idle sessions are kept.
    pub pool_size: u32,
    /// How many slots are waited for in the database at the same time, with a session and a thread each.
    pub wait_connections: u32,
    /// The most that one operation may take.
    pub operation_timeout: Duration,
}

impl SessionSettings {
    /// Checks the settings; for builders, before they connect.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] that names the setting and the limit.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.pool_size == 0 {
            return Err(ConfigError::setting(
                "pool_size",
                "0 is too small, the minimum is 1",
            ));
        }
        Ok(())
    }
}

/// Writes the builder methods for the settings that every store on sessions has, inside the `impl` of a builder
/// with fields `pool_size: u32` and `wait_connections: u32`; for authors of such stores.
#[macro_export]
macro_rules! session_settings {
    () => {
        /// The most connections that operations use at the same moment, and the most idle ones that are kept.
        /// Each lease has a connection of its own beside these. Default 8, at least 1.
        #[must_use]
        pub const fn pool_size(mut self, size: u32) -> Self {
            self.pool_size = size;
            self
        }

        /// How many slots are waited for at the server at the same time, each with a connection and a thread:
        /// the waiter then enters within a round trip or two of the release. Other slots are looked at every
        /// `retry_interval`. However many threads wait for one slot, it needs one. Default 4; zero always
        /// polls.
        #[must_use]
        pub const fn wait_connections(mut self, connections: u32) -> Self {
            self.wait_connections = connections;
            self
        }
    };
}

/// Leases over the locks of a database's sessions. Clones are handles of the same sessions.
pub struct SessionStore<D: Database>(Arc<Inner<D>>);

impl<D: Database> SessionStore<D> {
    /// Connects to a database, within the operation timeout, and makes a store of it. `address` is for the
    /// error; it carries no secret.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Connect`] when no session can be opened, or when sessions are shared.
    pub fn connect(
        database: D,
        settings: SessionSettings,
        address: String,
    ) -> Result<Self, ConfigError> {
        let budget = Budget::new(settings.operation_timeout);
        // Two, of which whatever shares its sessions would give both the same one.
        let first = [(); 2].map(|()| database.open(budget));
        let first = first.into_iter().collect::<Result<Vec<_>, _>>();
        let first = first.and_then(|sessions| Self::check_apart(sessions, budget));
        let first = first.map_err(|error| ConfigError::connect(address, error))?;
        Ok(Self::new(database, settings, first))
    }

    /// Has idle sessions look after each other, the last first: whatever gives out sessions in turn, or lends
    /// them to strangers in between, gives itself away.
    fn check_apart(
        mut sessions: Vec<D::Session>,
        budget: Budget,
    ) -> Result<Vec<D::Session>, StoreError> {
        let ids: Vec<_> = sessions
            .iter()
            .map(|session| session.id().clone())
            .collect();
        let others = ids.iter().cycle().skip(ids.len() - 1);
        let pairs: Vec<_> = sessions.iter_mut().zip(others).collect();
        for (session, other) in pairs.into_iter().rev() {
            let vouched = session.vouch(other, budget);
            vouched.map_err(Failure::into_bare_error)?;
        }
        Ok(sessions)
    }

    /// Makes a store of a database, with its first sessions.
    #[must_use]
    pub fn new(database: D, settings: SessionSettings, first: Vec<D::Session>) -> Self {
        let size = usize::try_from(settings.pool_size).unwrap_or(usize::MAX);
        let limit = usize::try_from(settings.wait_connections).unwrap_or(usize::MAX);
        let mut capabilities = Self::capabilities(settings.wait_connections);
        capabilities.silence = database.silence();
        let links = Links::new(database, size.max(1), settings.operation_timeout, first);
        let (links, leases) = (Arc::new(links), Arc::new(Leases::new()));
        let waits = Waits::new(Arc::clone(&links), Arc::clone(&leases), limit);
        Self(Arc::new(Inner {
            links,
            leases,
            waits,
            capabilities,
            process: Process::this(),
        }))
    }

    /// What such a store can do; how long it may be silent is up to the database.
    #[must_use]
    pub const fn capabilities(wait_connections: u32) -> Capabilities {
        let mut capabilities = Capabilities::new(MAX_TTL);
        capabilities.expires = false;
        capabilities.foreign_tokens = false;
        capabilities.wakeups = wait_connections > 0;
        capabilities
    }
}

impl<D: Database> LeaseStore for SessionStore<D> {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        _: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        const GRANTED: Acquired = Acquired::Granted { fencing: None };
        const HELD: Acquired = Acquired::Held { remaining: None };
        let inner = &*self.0;
        let call = inner.links.ghosts.call(slot, token);
        if let Some(bound) = inner.leases.get(slot, token)
            && inner.ask(&bound, token, budget)?.is_some()
        {
            return Ok(GRANTED);
        }
        if let Some(session) = inner.waits.claim(slot) {
            inner.leases.bind(slot, token, session);
            return Ok(GRANTED);
        }
        if inner.waits.is_blocked(slot) {
            return Ok(HELD);
        }
        let lock = |session: &mut D::Session| {
            let ghosts = &inner.links.ghosts;
            match ghosts.settle(session, Whose::Slot(slot), budget) {
                // The lock tells whether one that is still there holds it.
                Ok(_) | Err(Failure::Answer(_)) => session.try_lock(slot, budget),
                Err(failure) => Err(failure),
            }
        };
        let (granted, link) = inner.links.operate(budget, Some(&call), lock)?;
        if granted {
            inner.leases.bind(slot, token, link.into_session());
            return Ok(GRANTED);
        }
        link.give_back();
        inner.waits.ask(slot);
        Ok(HELD)
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        _: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let Some(bound) = self.0.leases.get(slot, token) else {
            return Ok(Renewed::NotHeld);
        };
        let living = self.0.ask(&bound, token, budget)?;
        Ok(renewed(living.is_some()))
    }

    /// Asks all sessions at once: one that stalls costs no other lease its renewal.
    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        _: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        let leases = leases.iter();
        let asked = leases.map(|(slot, token)| self.0.renewing(slot, token, budget));
        let answers = wait_all(asked, budget.deadline()).into_iter();
        let no_answer = || Err(Failure::no_answer("probing").into_store_error());
        let answers = answers.map(|answer| answer.unwrap_or_else(no_answer));
        answers.collect()
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        let inner = &*self.0;
        if let Some(id) = SessionId::of(token) {
            return inner.force(slot, &id, budget);
        }
        let freed = inner.unlock(slot, token, budget)?;
        let ended = inner.settle(token, budget)?;
        Ok(released(freed || ended))
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        _: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        let inner = &*self.0;
        let _call = inner.links.ghosts.call(slot, to);
        // As final for `from` as a release: what is left of it is ended while the session is still its own.
        inner.settle(from, budget)?;
        for token in [from, to] {
            if let Some(bound) = inner.leases.get(slot, token)
                && let Some(_living) = inner.ask(&bound, token, budget)?
            {
                if token == from {
                    inner.leases.rebind(&bound, from, to);
                }
                return Ok(HandedOver::Granted { fencing: None });
            }
        }
        inner.settle(from, budget)?;
        Ok(HandedOver::NotHeld)
    }

    fn in_doubt(&self, token: &LeaseToken) -> bool {
        self.0.links.ghosts.haunt(token)
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        let work = |session: &mut D::Session| session.holder(slot, budget);
        let (holder, link) = self.0.links.operate(budget, None, work)?;
        link.give_back();
        Ok(holder.map(|holder| {
            let LockHolder {
                session,
                owner,
                since,
                description,
            } = holder;
            let token = self.0.leases.token_of(slot, &session);
            let token = token.unwrap_or_else(|| session.as_token());
            let mut holder = Holder::new(token, None).with_description(description);
            if let Some(owner) = owner {
                holder = holder.with_owner(owner);
            }
            if let Some(since) = since {
                holder = holder.with_since(since);
            }
            holder
        }))
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        let wakeups = self.0.capabilities.wakeups;
        wakeups.then(|| self.0.waits.watch(slot, subscriber))
    }

    fn cut_off(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.links.cut_off();
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }
}

impl<D: Database> Clone for SessionStore<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Database> fmt::Debug for SessionStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStore").finish_non_exhaustive()
    }
}
