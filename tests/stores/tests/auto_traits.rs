//! What callers may do with the types, checked by the compiler.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use guard_core::{
    ConfigError, GuardError, Interrupt, LeaseStore, LeaseToken, NoopGuard, SandboxExecutionGuard,
    SandboxExecutionGuardExt, SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait,
};
use guard_memory::{ManualClock, MemorySandboxExecutionGuard, MemoryStore};
use guard_mysql::{MySqlSandboxExecutionGuard, MySqlStore};
use guard_postgres::{PostgresSandboxExecutionGuard, PostgresStore};
use guard_redis::{RedisSandboxExecutionGuard, RedisStore};

fn shared<T: Send + Sync + ?Sized>() {}
fn owned<T: Send + Sync + Debug + 'static>() {}
fn guard<G: SandboxExecutionGuard + ?Sized>() {}
fn cloned<T: Clone>() {}
fn caught<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn leases_and_guards_go_to_any_thread() {
    owned::<SandboxLease>();
    owned::<MemorySandboxExecutionGuard>();
    owned::<RedisSandboxExecutionGuard>();
    owned::<PostgresSandboxExecutionGuard>();
    owned::<PostgresStore>();
    owned::<MySqlSandboxExecutionGuard>();
    owned::<MySqlStore>();
    owned::<MemoryStore>();
    owned::<RedisStore>();
    owned::<ManualClock>();
    owned::<NoopGuard>();
    owned::<Interrupt>();
    owned::<LeaseToken>();
    owned::<SandboxIsolationKey>();
    owned::<SlotName>();
    owned::<Wait<'static>>();
}

#[test]
fn guards_are_handles() {
    cloned::<MemorySandboxExecutionGuard>();
    cloned::<RedisSandboxExecutionGuard>();
    cloned::<PostgresSandboxExecutionGuard>();
}

#[test]
fn errors_travel_in_any_error_type() {
    fn error<E: std::error::Error + Clone + Send + Sync + 'static>() {}
    error::<GuardError>();
    error::<ConfigError>();
    error::<StoreError>();
}

#[test]
fn the_traits_make_objects_and_are_forwarded_to_them() {
    shared::<dyn SandboxExecutionGuard>();
    shared::<dyn LeaseStore>();
    guard::<dyn SandboxExecutionGuard>();
    guard::<&dyn SandboxExecutionGuard>();
    guard::<Box<dyn SandboxExecutionGuard>>();
    guard::<Arc<dyn SandboxExecutionGuard>>();
    guard::<&Arc<Box<MemorySandboxExecutionGuard>>>();
}

#[test]
fn an_object_behind_an_arc_runs_work() {
    let guard: Arc<dyn SandboxExecutionGuard> = Arc::new(NoopGuard);
    let key = SandboxIsolationKey::global();
    let answer = guard.run(&key, Wait::not_at_all(), |lease| lease.is_held());
    assert!(answer.is_ok_and(|held| held));
}

/// What a service meets has a name in the one crate that it depends on, whichever that is.
#[test]
fn every_stores_crate_names_what_its_users_meet() {
    macro_rules! names {
        ($($store:ident),*) => { $({
            use $store::{
                CloseEvent, CloseOutcome, ConfigError, EnterEvent, FencingToken, GuardConfig,
                GuardError, GuardObserver, Holder, Interrupt, IsolationScope, KeyPrefix, LOG_TARGET,
                LeaseToken, LostEvent, NoopGuard, OutageEvent, RuntimeContext, SandboxExecutionGuard,
                SandboxExecutionGuardExt, SandboxIsolationKey, SandboxLease, SlotName, StoreError,
                Wait, WaitEvent,
            };
            fn all<G: GuardObserver + SandboxExecutionGuard + SandboxExecutionGuardExt>(
                _: (CloseEvent, EnterEvent, LostEvent, OutageEvent, WaitEvent),
                _: (CloseOutcome, ConfigError, FencingToken, GuardConfig, GuardError, Holder),
                _: (Interrupt, IsolationScope, KeyPrefix, LeaseToken, NoopGuard, RuntimeContext),
                _: (SandboxIsolationKey, SandboxLease, SlotName, StoreError, Wait<'_>),
            ) {
            }
            struct Both;
            impl GuardObserver for Both {}
            impl SandboxExecutionGuard for Both {
                fn enter(
                    &self,
                    _: &SandboxIsolationKey,
                    _: Wait<'_>,
                ) -> Result<SandboxLease, GuardError> {
                    Ok(SandboxLease::noop())
                }
            }
            let _ = all::<Both>;
            assert_eq!(LOG_TARGET, $store::guard_core::LOG_TARGET);
        })* };
    }
    names!(guard_memory, guard_redis, guard_postgres, guard_mysql);
}

/// What a service keeps of its sandboxes it keeps by key; clippy warns of keys that could change in a map.
#[test]
fn keys_find_what_is_kept_by_them() {
    caught::<SandboxIsolationKey>();
    let key = SandboxIsolationKey::global();
    let by_hash: HashMap<SandboxIsolationKey, u8> = HashMap::from([(key.clone(), 1)]);
    let in_order: BTreeMap<SandboxIsolationKey, u8> = BTreeMap::from([(key.clone(), 1)]);
    drop(NoopGuard.try_enter(&key));
    assert_eq!(by_hash.get(&key), in_order.get(&key));
}
