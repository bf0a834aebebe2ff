//! What operators learn about who holds a slot.

use std::time::Duration;

use guard_core::LeaseToken;

use crate::backend::Backend;
use crate::fixture::{Fixture, enter, key};

/// Before anybody entered, and after everybody left.
pub(crate) fn a_free_slot_has_no_holder(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    assert!(guard.holder(&key("a")).unwrap().is_none());
    drop(enter(&guard, &key("a")));
    assert!(guard.holder(&key("a")).unwrap().is_none());
}

/// The label, a short token and the time left are shown; the token, which could free the slot, is not.
pub(crate) fn a_holder_shows_its_owner_and_never_its_token(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let ttl = Duration::from_secs(60);
    let ours = fixture.guard_with(|config| {
        config.owner = Some("web-7".to_owned());
        config.lease_ttl = ttl;
    });
    let other = fixture.guard();
    let lease = enter(&ours, &key("a"));
    let holder = other.holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some("web-7"));
    assert_eq!(holder.short_token(), lease.token().short());
    let remaining = holder.remaining().unwrap();
    assert!(remaining <= ttl && remaining > ttl / 2, "{remaining:?}");

    let secret = random_part(lease.token());
    for shown in [
        format!("{holder:?}"),
        holder.to_string(),
        format!("{lease:?}"),
    ] {
        assert!(!shown.contains(secret), "{shown}");
    }
    // Without a label there is no owner to show.
    drop(enter(&other, &key("b")));
    let _unnamed = enter(&other, &key("b"));
    assert_eq!(ours.holder(&key("b")).unwrap().unwrap().owner(), None);
}

fn random_part(token: &LeaseToken) -> &str {
    let text = token.as_str();
    text.rsplit_once('/').map_or(text, |(_, random)| random)
}

/// A foreign holder is shown as far as it can be: no owner, no whole token, a TTL only if it has one.
pub(crate) fn a_foreign_holder_may_have_no_ttl(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let slot = fixture.slot(&key("a"));
    let token = "0b5f8a52-1d0f-4a57-9c44-4f1f5a3cfb6e";
    fixture.foreign().set(&slot, token, None);
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert_eq!((holder.owner(), holder.remaining()), (None, None));
    assert!(!format!("{holder} {holder:?}").contains(token));

    fixture
        .foreign()
        .set(&slot, token, Some(Duration::from_secs(60)));
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert!(holder.remaining().unwrap() > Duration::from_secs(30));
    fixture.foreign().delete(&slot);
}
