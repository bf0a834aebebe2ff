//! Keys, prefixes, slot names, and the settings that are refused.

use std::time::Duration;

use guard_core::{
    ConfigError, GuardConfig, IsolationScope, KeyPrefix, SandboxExecutionGuard as _,
    SandboxIsolationKey, SlotName,
};

use crate::backend::Backend;
use crate::fixture::{Fixture, assert_free, assert_held, enter, key, unique_prefix};
use crate::vectors::{Resolved, SlotRow, resolve_rows, slot_rows};

/// The same key under another prefix is another slot; a final `:` more or less is the same prefix.
pub(crate) fn prefixes_keep_guards_apart_and_equal_ones_share(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let under = |prefix: String| fixture.guard_with(|config| config.key_prefix = prefix);
    let one = under(format!("{}-one", fixture.prefix));
    let same = under(format!("{}-one:", fixture.prefix));
    let two = under(format!("{}-two", fixture.prefix));
    let _lease = enter(&one, &key("a"));
    assert_held(&same, &key("a"));
    assert_free(&two, &key("a"));
}

/// Java's one-line Redis store builds its guard with another prefix than the default. Who sets it meets a Java
/// holder in its slot; who does not enters beside it.
pub(crate) fn a_java_service_with_the_one_line_store_is_met_under_its_prefix(
    backend: &dyn Backend,
) {
    let fixture = Fixture::new(backend);
    let guard = |prefix: &str| fixture.guard_with(|config| config.key_prefix = prefix.to_owned());
    let agent = unique_prefix();
    let slot = SlotName::from_store(&format!("agentscope:guard:agent:{agent}"));
    fixture.foreign().set(&slot, "9f0c5d1e-java", None);
    let met = guard("agentscope:guard:");
    assert_held(&met, &key(&agent));
    assert_free(&guard(&GuardConfig::default().key_prefix), &key(&agent));
    fixture.foreign().delete(&slot);
    let lease = enter(&met, &key(&agent));
    assert!(fixture.carries(&slot, lease.token().as_str()));
}

/// Each legal key is found in the store under its name, character by character, and its counter too, where the
/// store keeps one; the others are refused.
pub(crate) fn slot_names_are_those_of_the_vectors(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    for row in slot_rows() {
        let defaults = GuardConfig::default();
        let prefix = row.prefix.clone().unwrap_or(defaults.key_prefix);
        let config = GuardConfig {
            key_prefix: prefix.clone(),
            ..fixture.config()
        };
        let (guard, key) = (
            backend.guard(config),
            SandboxIsolationKey::new(row.scope, &*row.value),
        );
        let Some(expected) = &row.slot else {
            assert!(guard.is_err() || key.is_err(), "{row:?}");
            assert_eq!(guard.is_err(), KeyPrefix::new(&prefix).is_err(), "{row:?}");
            continue;
        };
        let (guard, key) = (guard.unwrap(), key.unwrap());
        check_parts(&row, &key);
        let slot = KeyPrefix::new(&prefix).unwrap().slot(&key);
        assert_eq!(slot.as_str(), expected, "{row:?}");
        let lease = guard.try_enter(&key).unwrap();
        assert!(fixture.carries(&slot, lease.token().as_str()), "{row:?}");
        drop(lease);
        assert!(guard.holder(&key).unwrap().is_none(), "{row:?}");
        if let Some(counters) = fixture.counters() {
            assert!(counters.contains(row.counter.as_ref().unwrap()), "{row:?}");
        }
    }
}

fn check_parts(row: &SlotRow, key: &SandboxIsolationKey) {
    assert_eq!((key.scope(), key.value()), (row.scope, &*row.value));
    assert_eq!(key.to_string(), format!("{}:{}", row.scope, row.value));
    if row.scope == IsolationScope::Global {
        assert_eq!(*key, SandboxIsolationKey::global());
    }
}

/// A call's context finds the key that the reference implementation would.
pub(crate) fn keys_resolve_as_the_vectors_say(_: &dyn Backend) {
    for row in resolve_rows() {
        let found = SandboxIsolationKey::resolve(row.scope, &row.context, row.agent_id.as_deref());
        let found = match found {
            Ok(Some(key)) => Resolved::Key(key.to_string()),
            Ok(None) => Resolved::Nothing,
            Err(ConfigError::InvalidKey { .. }) => Resolved::Refused,
            Err(other) => panic!("{row:?}: {other}"),
        };
        assert_eq!(found, row.expected, "{row:?}");
    }
}

/// A value that no slot may have is refused where the key is made, with a reason.
pub(crate) fn illegal_keys_are_refused(_: &dyn Backend) {
    let two_kib = "x".repeat(2048);
    for (value, reason) in [
        ("", "blank"),
        (" \t", "blank"),
        (&*two_kib, "1024"),
        ("a\0b", "NUL"),
    ] {
        let error = SandboxIsolationKey::new(IsolationScope::Session, value).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains("session"), "{text}");
    }
}

/// Each setting outside its limits is refused before anything starts, by an error that names it.
pub(crate) fn bad_settings_are_refused_by_name(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let refused = |setting: &str, change: &dyn Fn(&mut GuardConfig)| {
        let mut config = fixture.config();
        change(&mut config);
        let Err(error) = backend.guard(config.clone()) else {
            panic!("accepted: {config:?}")
        };
        let text = error.to_string();
        assert!(text.contains(setting), "{text}");
        assert!(!error.is_transient());
    };
    for prefix in ["", "  ", "\u{1C}", "a\0b"] {
        refused("key_prefix", &|config| {
            config.key_prefix = prefix.to_owned()
        });
    }
    let beyond = backend
        .capabilities()
        .max_ttl
        .checked_add(Duration::from_millis(1));
    for ttl in [Duration::ZERO, Duration::from_micros(999), Duration::MAX]
        .into_iter()
        .chain(beyond)
    {
        refused("lease_ttl", &|config| config.lease_ttl = ttl);
    }
    for time in [Duration::ZERO, Duration::from_micros(999)] {
        refused("retry_interval", &|config| config.retry_interval = time);
        refused("operation_timeout", &|config| {
            config.operation_timeout = time
        });
    }
    for owner in ["", " ", "line\nbreak", &"x".repeat(129)] {
        refused("owner", &|config| config.owner = Some(owner.to_owned()));
    }
}

/// A lease lasts for as long as the store says that it can.
pub(crate) fn the_longest_ttl_can_be_held(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let longest = backend.capabilities().max_ttl;
    let guard = fixture.guard_of(longest);
    let lease = enter(&guard, &key("a"));
    assert!(lease.is_held());
    lease.renew().unwrap();
    assert!(lease.remaining() > longest / 2);
    drop(lease);
    assert_free(&guard, &key("a"));
}

/// And so does the slot.
pub(crate) fn the_store_keeps_the_longest_ttl(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let longest = backend.capabilities().max_ttl;
    let lease = enter(&fixture.guard_of(longest), &key("a"));
    lease.renew().unwrap();
    let remaining = fixture.ttl(&fixture.slot(&key("a"))).unwrap();
    assert!(remaining > longest / 2, "{remaining:?}");
}
