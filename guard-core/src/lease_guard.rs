//! The one implementation of a guard, over any store.

use std::fmt;
use std::sync::Arc;

use crate::base::error::{ConfigError, GuardError};
use crate::base::key::SandboxIsolationKey;
use crate::base::slot::SlotName;
use crate::caller::config::GuardConfig;
use crate::caller::guard::SandboxExecutionGuard;
use crate::caller::lease::SandboxLease;
use crate::caller::wait::Wait;
use crate::engine::entry;
use crate::engine::shared::Engine;
use crate::store::contract::{LeaseStore, Released};
use crate::store::holder::Holder;

/// How often a forced release looks who holds the slot.
const FORCED_LOOKS: u32 = 3;

/// A guard over a [`LeaseStore`]: gate, attempt, wait, lease.
///
/// Clones share everything. The guard's threads end with the last clone and the last lease.
pub struct LeaseGuard<S: LeaseStore> {
    engine: Arc<Engine<S>>,
}

impl<S: LeaseStore> LeaseGuard<S> {
    /// Makes a guard of a store; for the builders of stores.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] when a setting is outside its limits, and [`ConfigError::Thread`]
    /// when the guard's keeper thread cannot be started.
    pub fn new(store: S, config: &GuardConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            engine: Arc::new(Engine::new(store, config)?),
        })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.engine.store.0
    }

    /// The name of `key`'s slot in the store.
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        self.engine.settings.prefix.slot(key)
    }
}

impl<S: LeaseStore> SandboxExecutionGuard for LeaseGuard<S> {
    fn enter(&self, key: &SandboxIsolationKey, wait: Wait<'_>) -> Result<SandboxLease, GuardError> {
        entry::enter(&self.engine, &self.slot(key), wait)
    }

    fn holder(&self, key: &SandboxIsolationKey) -> Result<Option<Holder>, GuardError> {
        let slot = self.slot(key);
        self.engine.check_process(&slot)?;
        let store = &self.engine.store;
        let holder = store.holder(&slot, self.engine.budget());
        let holder = holder.map_err(|error| GuardError::store(&slot, error))?;
        self.engine.answered(store.node(&slot));
        // Where a slot does not expire at the store, a lease of this guard has a TTL all the same.
        let time_left = |holder: &Holder| {
            let lease = self.engine.gates.lease(&slot, holder.token())?;
            Some(lease.time_left())
        };
        Ok(holder.map(|holder| match time_left(&holder) {
            Some(time_left) => holder.with_remaining(time_left),
            None => holder,
        }))
    }

    fn force_release(&self, key: &SandboxIsolationKey) -> Result<Option<Holder>, GuardError> {
        let slot = self.slot(key);
        self.engine.check_process(&slot)?;
        let (store, budget) = (&self.engine.store, self.engine.budget());
        let failed = |error| GuardError::store(&slot, error);
        // A slot that changes hands in between is looked at again; somebody who enters after the last look
        // is not whom the operator meant.
        for _ in 0..FORCED_LOOKS {
            let Some(holder) = store.holder(&slot, budget).map_err(failed)? else {
                return Ok(None);
            };
            // Before the slot is free: an entry that goes by the token must know by then.
            let ours = self.engine.gates.revoke(&slot, holder.token());
            let released = store.release(&slot, holder.token(), budget);
            if released.map_err(failed)? == Released::Released {
                match ours {
                    Some(lease) => lease.end_by_force(),
                    None => log::warn!(
                        target: crate::LOG_TARGET,
                        "sandbox slot {slot:?}: the lease of {holder} is ended by force"
                    ),
                }
                self.engine.gates.nudge(&slot);
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }

    fn close(&self) {
        if !self.engine.is_inherited() {
            self.engine.gates.close();
        }
    }
}

impl<S: LeaseStore> Clone for LeaseGuard<S> {
    fn clone(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
        }
    }
}

impl<S: LeaseStore> fmt::Debug for LeaseGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard")
            .field("prefix", &self.engine.settings.prefix)
            .field("slots", &self.engine.gates.len())
            .finish_non_exhaustive()
    }
}

/// Makes a guard type of its own out of a field with a [`LeaseGuard`]; for authors of stores.
///
/// ```
/// # use guard_core::{LeaseGuard, LeaseStore, forward_guard};
/// #[derive(Clone, Debug)]
/// pub struct MyGuard<S: LeaseStore> { guard: LeaseGuard<S> }
/// forward_guard!(impl<S: LeaseStore> for MyGuard<S>, guard);
/// ```
#[macro_export]
macro_rules! forward_guard {
    (impl$(<$($name:ident : $bound:path),*>)? for $guard:ty, $field:ident) => {
        impl$(<$($name: $bound),*>)? $crate::SandboxExecutionGuard for $guard {
            fn enter(
                &self,
                key: &$crate::SandboxIsolationKey,
                wait: $crate::Wait<'_>,
            ) -> ::std::result::Result<$crate::SandboxLease, $crate::GuardError> {
                self.$field.enter(key, wait)
            }

            fn holder(
                &self,
                key: &$crate::SandboxIsolationKey,
            ) -> ::std::result::Result<::std::option::Option<$crate::Holder>, $crate::GuardError> {
                self.$field.holder(key)
            }

            fn force_release(
                &self,
                key: &$crate::SandboxIsolationKey,
            ) -> ::std::result::Result<::std::option::Option<$crate::Holder>, $crate::GuardError> {
                self.$field.force_release(key)
            }

            fn close(&self) {
                self.$field.close();
            }
        }
    };
}
