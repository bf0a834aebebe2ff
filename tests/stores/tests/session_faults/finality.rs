//! Releases and hand-overs beside calls of the same token that are under way, or were never answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use guard_conformance::{Waiting, eventually};
use guard_core::{Acquired, HandedOver, LeaseStore, LeaseToken, Released, Renewed, SlotName};
use guard_session::SessionStore;
use parking_lot::Mutex;

use crate::database::{Call, Fake, Fate, Server, store};
use crate::hand_overs::{budget, token, ttl};
use crate::slot;

const TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn granted(store: &SessionStore<Fake>, slot: &SlotName, token: &LeaseToken) -> bool {
    let acquired = store.acquire(slot, token, ttl(), budget()).unwrap();
    matches!(acquired, Acquired::Granted { .. })
}

/// The first call of a kind comes to this, all others are answered. Answers how many sessions were ended.
pub(crate) fn first(server: &Server, wanted: Call, fate: Fate) -> Arc<AtomicUsize> {
    let (calls, ended) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ended);
    server.script(move |call| {
        if call == Call::End {
            count.fetch_add(1, Ordering::SeqCst);
        }
        if call == wanted && calls.fetch_add(1, Ordering::SeqCst) == 0 {
            fate
        } else {
            Fate::Answered
        }
    });
    ended
}

/// A token that has a lock call left behind on another session than the one that carries its lease.
fn lease_with_a_ghost(server: &Arc<Server>) -> (SessionStore<Fake>, LeaseToken, Arc<AtomicUsize>) {
    let (store, token) = (store(server, 0, TIMEOUT), token());
    let ended = first(server, Call::TryLock, Fate::Cut);
    assert!(store.acquire(&slot("a"), &token, ttl(), budget()).is_err());
    // The next attempt has its ghost ended, or goes on if it cannot be told to be ours.
    let refused = Arc::clone(&ended);
    server.script(move |call| match call {
        Call::End => {
            refused.fetch_add(1, Ordering::SeqCst);
            Fate::Refused
        }
        _ => Fate::Answered,
    });
    assert!(granted(&store, &slot("a"), &token));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    (store, token, ended)
}

#[test]
fn a_release_is_final_only_when_every_call_of_its_token_is_settled() {
    let server = Server::start();
    let (store, token, ended) = lease_with_a_ghost(&server);
    let error = store.release(&slot("a"), &token, budget()).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(store.in_doubt(&token));
    let count = Arc::clone(&ended);
    server.script(move |call| {
        if call == Call::End {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Answered
    });
    store.release(&slot("a"), &token, budget()).unwrap();
    assert!(ended.load(Ordering::SeqCst) > 1 && !store.in_doubt(&token));
    assert!(!server.is_locked(slot("a").as_str()));
}

#[test]
fn a_hand_over_is_final_only_when_every_call_of_its_token_is_settled() {
    let server = Server::start();
    let (store, from, _) = lease_with_a_ghost(&server);
    let to = token();
    let handed = store.hand_over(&slot("a"), &from, &to, ttl(), budget());
    let error = handed.unwrap_err();
    assert!(error.is_transient() && !error.is_unknown(), "{error:?}");
    server.script(|_| Fate::Answered);
    let handed = store.hand_over(&slot("a"), &from, &to, ttl(), budget());
    assert!(matches!(handed, Ok(HandedOver::Granted { .. })));
    assert!(!store.in_doubt(&from));
    store.release(&slot("a"), &to, budget()).unwrap();
}

#[test]
fn a_release_is_not_final_while_another_thread_asks_for_its_token() {
    let server = Server::start();
    let (store, token) = (store(&server, 0, TIMEOUT), token());
    let (go_on, waits) = mpsc::channel();
    let (waits, asking) = (Mutex::new(waits), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asking);
    server.script(move |call| {
        if call == Call::TryLock {
            count.fetch_add(1, Ordering::SeqCst);
            waits.lock().recv().unwrap();
        }
        Fate::Answered
    });
    let acquiring = {
        let (store, token) = (store.clone(), token.clone());
        Waiting::start(move || granted(&store, &slot("a"), &token))
    };
    eventually("it asks", || asking.load(Ordering::SeqCst) > 0);
    let error = store.release(&slot("a"), &token, budget()).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    go_on.send(()).unwrap();
    assert!(acquiring.result());
    let released = store.release(&slot("a"), &token, budget()).unwrap();
    assert_eq!(released, Released::Released);
    assert!(!server.is_locked(slot("a").as_str()));
}

#[test]
fn a_panic_in_a_callers_lock_call_leaves_no_lock() {
    let server = Server::start();
    let (store, token) = (store(&server, 0, TIMEOUT), token());
    first(&server, Call::TryLock, Fate::Panics);
    let acquire = || store.acquire(&slot("a"), &token, ttl(), budget());
    assert!(catch_unwind(AssertUnwindSafe(acquire)).is_err());
    assert!(server.is_locked(slot("a").as_str()) && store.in_doubt(&token));
    store.release(&slot("a"), &token, budget()).unwrap();
    assert!(!server.is_locked(slot("a").as_str()));
}

#[test]
fn a_panic_in_an_unlock_leaves_no_session() {
    let server = Server::start();
    let (store, token) = (store(&server, 0, TIMEOUT), token());
    assert!(granted(&store, &slot("a"), &token));
    let ended = first(&server, Call::Unlock, Fate::Panics);
    let release = || store.release(&slot("a"), &token, budget());
    assert!(catch_unwind(AssertUnwindSafe(release)).is_err());
    release().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

/// The server has not heard that the session is over: it still has the lock.
#[test]
fn a_lease_whose_session_is_cut_off_frees_its_slot_at_the_server() {
    let server = Server::start();
    let (store, token) = (store(&server, 0, TIMEOUT), token());
    assert!(granted(&store, &slot("a"), &token));
    first(&server, Call::Probe, Fate::Cut);
    let renewed = store.renew(&slot("a"), &token, ttl(), budget()).unwrap();
    assert_eq!(renewed, Renewed::NotHeld);
    assert!(server.is_locked(slot("a").as_str()));
    store.release(&slot("a"), &token, budget()).unwrap();
    assert!(!server.is_locked(slot("a").as_str()));
}
