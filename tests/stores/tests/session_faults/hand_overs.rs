//! Calls of a token whose session is just now handed over to another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use guard_conformance::{Waiting, eventually};
use guard_core::{
    Acquired, Budget, HandedOver, LeaseStore, LeaseToken, LeaseTtl, OwnerLabel, Released, Renewed,
};
use guard_session::SessionStore;
use parking_lot::Mutex;

use crate::database::{Call, Fake, Fate, Server, store};
use crate::slot;

pub(crate) fn budget() -> Budget {
    Budget::new(Duration::from_secs(10))
}

pub(crate) fn ttl() -> LeaseTtl {
    LeaseTtl::new(LeaseTtl::DEFAULT, Duration::MAX).unwrap()
}

pub(crate) fn token() -> LeaseToken {
    LeaseToken::generate(&OwnerLabel::default())
}

/// Makes `call` of `from` while its session is being handed over to `to`; answers what it came to.
fn during_hand_over<T: Send + 'static>(
    call: impl FnOnce(&SessionStore<Fake>, &LeaseToken) -> T + Send + 'static,
) -> T {
    let server = Server::start();
    let store = store(&server, 0, Duration::from_secs(10));
    let (from, to, slot) = (token(), token(), slot("a"));
    let granted = store.acquire(&slot, &from, ttl(), budget()).unwrap();
    assert!(matches!(granted, Acquired::Granted { .. }));

    let probing = Arc::new(AtomicBool::new(false));
    let (go_on, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    server.script({
        let probing = Arc::clone(&probing);
        move |call| {
            if call == Call::Probe && !probing.swap(true, Ordering::SeqCst) {
                waits.lock().recv().unwrap();
            }
            Fate::Answered
        }
    });
    let handing = {
        let (store, slot, from, to) = (store.clone(), slot.clone(), from.clone(), to.clone());
        Waiting::start(move || store.hand_over(&slot, &from, &to, ttl(), budget()))
    };
    eventually("the hand-over asks the session", || {
        probing.load(Ordering::SeqCst)
    });
    let calling = {
        let (store, from) = (store.clone(), from.clone());
        Waiting::start(move || call(&store, &from))
    };
    go_on.send(()).unwrap();
    let handed = handing.result().unwrap();
    assert!(matches!(handed, HandedOver::Granted { .. }), "{handed:?}");
    let answer = calling.result();

    // The receiver has the slot, and frees it for good.
    assert!(server.is_locked(slot.as_str()));
    let renewed = store.renew(&slot, &to, ttl(), budget()).unwrap();
    assert_eq!(renewed, Renewed::Renewed);
    let released = store.release(&slot, &to, budget()).unwrap();
    assert_eq!(released, Released::Released);
    assert!(!server.is_locked(slot.as_str()));
    answer
}

#[test]
fn a_release_that_comes_during_a_hand_over_leaves_the_receiver_its_slot() {
    let released = during_hand_over(|store, from| store.release(&slot("a"), from, budget()));
    assert_eq!(released.unwrap(), Released::NotHeld);
}

#[test]
fn a_renewal_that_comes_during_a_hand_over_is_not_the_receivers() {
    let renewed = during_hand_over(|store, from| store.renew(&slot("a"), from, ttl(), budget()));
    assert_eq!(renewed.unwrap(), Renewed::NotHeld);
}

#[test]
fn an_entry_that_asks_again_during_a_hand_over_finds_the_slot_held() {
    let acquired = during_hand_over(|store, from| store.acquire(&slot("a"), from, ttl(), budget()));
    let acquired = acquired.unwrap();
    assert!(matches!(acquired, Acquired::Held { .. }), "{acquired:?}");
}
