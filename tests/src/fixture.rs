//! What a case starts from.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{
    Budget, GuardConfig, Holder, IsolationScope, KeyPrefix, LeaseToken, LeaseTtl, OwnerLabel,
    SandboxExecutionGuard, SandboxIsolationKey, SandboxLease, SlotName,
};

use crate::backend::{Backend, Foreign};

/// How long an event may take that must come: long, because machines are noisy and because only failing
/// cases wait for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A guard of the cases.
pub(crate) type Guard = Arc<dyn SandboxExecutionGuard>;

/// Waits until `event` has happened.
///
/// # Panics
///
/// When that takes longer than [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut event: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !event() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A key prefix that nobody else uses.
#[must_use]
pub fn unique_prefix() -> String {
    let random = LeaseToken::generate(&OwnerLabel::default());
    format!("conformance-{}", random.as_str())
}

/// A place of its own in the store: a random prefix, and what is needed to work under it.
pub(crate) struct Fixture<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) prefix: String,
}

impl<'a> Fixture<'a> {
    pub(crate) fn new(backend: &'a dyn Backend) -> Self {
        Self {
            backend,
            prefix: unique_prefix(),
        }
    }

    /// Settings for cases: quick looks, a TTL that no case outlasts but that cleans up after it, and no haste.
    pub(crate) fn config(&self) -> GuardConfig {
        GuardConfig {
            key_prefix: self.prefix.clone(),
            lease_ttl: Duration::from_secs(120),
            retry_interval: Duration::from_millis(5),
            // Machines were seen to stand still for more than the default.
            operation_timeout: PATIENCE,
            ..GuardConfig::default()
        }
    }

    pub(crate) fn guard(&self) -> Guard {
        self.guard_with(|_| {})
    }

    pub(crate) fn guard_with(&self, change: impl FnOnce(&mut GuardConfig)) -> Guard {
        let mut config = self.config();
        change(&mut config);
        self.backend.guard(config).unwrap()
    }

    /// A guard whose leases last for `ttl`.
    pub(crate) fn guard_of(&self, ttl: Duration) -> Guard {
        self.guard_with(|config| config.lease_ttl = ttl)
    }

    pub(crate) fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        KeyPrefix::new(&self.prefix).unwrap().slot(key)
    }

    pub(crate) fn foreign(&self) -> &'a dyn Foreign {
        self.backend.foreign().expect("the suite has asked")
    }

    /// Whether the slot carries this token, as a foreign program sees it; where there are none, as the store does.
    pub(crate) fn carries(&self, slot: &SlotName, token: &str) -> bool {
        match self.backend.foreign() {
            Some(foreign) => foreign.carries(slot, token),
            // Holders are equal if their tokens are.
            None => self.holder(slot).is_some_and(|holder| {
                holder == Holder::new(LeaseToken::from_store(token), holder.remaining())
            }),
        }
    }

    /// The slot's remaining TTL, likewise.
    pub(crate) fn ttl(&self, slot: &SlotName) -> Option<Duration> {
        match self.backend.foreign() {
            Some(foreign) => foreign.ttl(slot),
            None => self.holder(slot)?.remaining(),
        }
    }

    /// The names of all counters of fencing tokens that can be seen.
    pub(crate) fn counters(&self) -> Option<Vec<String>> {
        self.backend.foreign()?.counters()
    }

    fn holder(&self, slot: &SlotName) -> Option<Holder> {
        self.backend.store().holder(slot, budget()).unwrap()
    }

    /// What the store still has of the slots of `keys`; where slots have names in the store, whatever has a
    /// name under this fixture's prefix, fence counters included.
    pub(crate) fn left(&self, keys: &[SandboxIsolationKey]) -> Vec<String> {
        if self.backend.capabilities().foreign_tokens {
            return self.foreign().names(&self.prefix);
        }
        let slots = keys.iter().map(|key| self.slot(key));
        let held = slots.filter(|slot| self.holder(slot).is_some());
        held.map(|slot| slot.to_string()).collect()
    }
}

pub(crate) fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

pub(crate) fn token() -> LeaseToken {
    LeaseToken::generate(&OwnerLabel::default())
}

pub(crate) fn ttl(time: Duration) -> LeaseTtl {
    LeaseTtl::new(time, Duration::MAX).unwrap()
}

pub(crate) fn budget() -> Budget {
    Budget::new(PATIENCE)
}

/// Enters without waiting a slot that is free.
#[track_caller]
pub(crate) fn enter(guard: &Guard, key: &SandboxIsolationKey) -> SandboxLease {
    let lease = guard.try_enter_now(key).unwrap();
    lease.unwrap_or_else(|| panic!("the slot of {key} is not free"))
}

#[track_caller]
pub(crate) fn assert_free(guard: &Guard, key: &SandboxIsolationKey) {
    drop(enter(guard, key));
}

#[track_caller]
pub(crate) fn assert_held(guard: &Guard, key: &SandboxIsolationKey) {
    let lease = guard.try_enter_now(key).unwrap();
    assert!(lease.is_none(), "the slot of {key} is free");
}
