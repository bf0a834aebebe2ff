//! What operators learn about who holds a slot.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use guard_core::{CloseOutcome, LeaseToken, SandboxLease};

use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, PATIENCE, assert_free, enter, key};
use crate::waiting::Waiting;

/// Before anybody entered, and after everybody left.
pub(crate) fn a_free_slot_has_no_holder(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    assert!(guard.holder(&key("a")).unwrap().is_none());
    drop(enter(&guard, &key("a")));
    assert!(guard.holder(&key("a")).unwrap().is_none());
}

/// The label is shown; the token, which could free the slot, is not.
pub(crate) fn a_holder_shows_its_owner_and_never_its_token(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let other = fixture.guard();
    let unusual = fixture.guard_with(|config| config.owner = Some("worker 7 / pod-α".to_owned()));
    let _lease = enter(&unusual, &key("c"));
    let holder = other.holder(&key("c")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some("worker 7 / pod-α"));

    let ours = fixture.guard_with(|config| config.owner = Some("web-7".to_owned()));
    let lease = enter(&ours, &key("a"));
    let holder = other.holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.owner(), Some("web-7"));

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

/// A short form of the token and the time left tell more.
pub(crate) fn a_holder_shows_its_token_in_short_and_its_time_left(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let ttl = Duration::from_secs(60);
    let lease = enter(&fixture.guard_of(ttl), &key("a"));
    let holder = fixture.guard().holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.short_token(), lease.token().short());
    let remaining = holder.remaining().unwrap();
    assert!(remaining <= ttl && remaining > ttl / 2, "{remaining:?}");
}

/// Its own guard knows the time left, also where the store does not.
pub(crate) fn a_guard_shows_the_time_left_of_its_own_lease(backend: &dyn Backend) {
    let ttl = Duration::from_secs(60);
    let guard = Fixture::new(backend).guard_of(ttl);
    let _lease = enter(&guard, &key("a"));
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    let remaining = holder.remaining().unwrap();
    assert!(remaining <= ttl && remaining > ttl / 2, "{remaining:?}");
    assert!(holder.to_string().ends_with("left"), "{holder}");
}

/// A holder that is not ours is a holder.
pub(crate) fn a_foreign_holder_is_shown(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let slot = fixture.slot(&key("a"));
    fixture.foreign().set(&slot, "foreign", None);
    let holder = fixture.guard().holder(&key("a")).unwrap().unwrap();
    assert_eq!(holder.remaining(), None);
    fixture.foreign().delete(&slot);
}

/// An operator ends a lease from another process: the slot is free, and its holder finds it lost.
pub(crate) fn a_holder_can_be_ended_by_force(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (ours, other) = (fixture.guard(), fixture.guard());
    assert!(other.force_release(&key("a")).unwrap().is_none());
    let lease = enter(&ours, &key("a"));
    assert!(other.force_release(&key("a")).unwrap().is_some());
    drop(enter(&other, &key("a")));
    assert!(lease.renew().is_err() && !lease.is_held());
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
}

/// No renewal, no wake-up and no callback is needed for a guard to know what it did itself.
pub(crate) fn a_lease_that_its_own_guard_ends_is_lost_at_once(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    ends_at_once(&guard, &lease);
    // Whoever asks to be told is told, too.
    let lease = enter(&guard, &key("a"));
    let (tell, told) = mpsc::channel();
    lease.on_lost(move || tell.send(()).unwrap()).unwrap();
    ends_at_once(&guard, &lease);
    told.recv_timeout(PATIENCE).unwrap();
    // The next one is no concern of a lease that was ended.
    let next = enter(&guard, &key("a"));
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(next.is_held() && next.renew().is_ok());
}

/// As one that found the slot free.
pub(crate) fn a_lease_that_was_handed_over_and_is_ended_is_lost_at_once(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("a"));
    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter(&key("a")))
    };
    lease.close();
    ends_at_once(&guard, &waiting.result().unwrap());
    assert_free(&guard, &key("a"));
}

#[track_caller]
fn ends_at_once(guard: &Guard, lease: &SandboxLease) {
    assert!(lease.is_held());
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(!lease.is_held() && lease.remaining() == Duration::ZERO);
    assert!(guard.holder(&key("a")).unwrap().is_none());
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

    let forged = "web-7\n\u{1b}[2Jok/0b5f8a521d0f4a579c444f1f5a3cfb6e";
    fixture.foreign().set(&slot, forged, None);
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert!(!format!("{holder} {holder:?}").contains(char::is_control));

    fixture
        .foreign()
        .set(&slot, token, Some(Duration::from_secs(60)));
    let holder = guard.holder(&key("a")).unwrap().unwrap();
    assert!(holder.remaining().unwrap() > Duration::from_secs(30));
    fixture.foreign().delete(&slot);
}
