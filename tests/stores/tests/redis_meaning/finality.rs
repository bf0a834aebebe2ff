//! A release is final: also for commands of its token that another thread of the process still waits for.

use std::thread;
use std::time::Duration;

use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, eventually};
use guard_core::{Acquired, Budget, HandedOver, LeaseStore};
use guard_store_tests::redis_server::RedisServer;

use crate::{OPERATION_TIMEOUT, builder, key, token, ttl};

/// Long enough for a ghost to come.
const A_WHILE: Duration = Duration::from_millis(100);

#[test]
fn a_release_is_not_final_while_a_command_of_its_token_is_under_way_in_another_thread() {
    for (fencing, answered) in [(false, true), (true, true), (false, false), (true, false)] {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        let guard = builder(&proxy.url()).fencing(fencing).build().unwrap();
        let (store, slot) = (guard.store(), guard.slot(&key("a")));
        let token = token();
        let budget = || Budget::new(OPERATION_TIMEOUT);
        // The scripts are loaded.
        store.acquire(&slot, &token, ttl(), budget()).unwrap();
        store.release(&slot, &token, budget()).unwrap();
        proxy.hold_next();
        thread::scope(|scope| {
            let acquiring = scope.spawn(|| {
                let budget = Budget::new(if answered {
                    PATIENCE
                } else {
                    OPERATION_TIMEOUT
                });
                store.acquire(&slot, &token, ttl(), budget)
            });
            eventually("the command is under way", || proxy.is_holding());
            let early = store.release(&slot, &token, budget());
            let error = early.expect_err("the command may still come");
            assert!(error.is_transient(), "{error:?}");
            if answered {
                proxy.deliver();
                let answer = acquiring.join().unwrap().unwrap();
                assert!(matches!(answer, Acquired::Granted { .. }));
            } else {
                acquiring.join().unwrap().expect_err("nothing is answered");
                assert!(store.in_doubt(&token));
            }
            store.release(&slot, &token, budget()).unwrap();
            proxy.deliver();
            thread::sleep(A_WHILE);
            assert_eq!(server.cli(&["EXISTS", slot.as_str()]), "0");
            assert!(!store.in_doubt(&token));
        });
    }
}

/// The receiver's own command is under way when it is handed the slot and passes it on.
#[test]
fn a_hand_over_is_as_final_for_the_token_that_gives() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = builder(&proxy.url()).build().unwrap();
    let (store, slot) = (guard.store(), guard.slot(&key("a")));
    let [first, second, third] = [(); 3].map(|()| token());
    let budget = || Budget::new(OPERATION_TIMEOUT);
    let hand = |from, to| store.hand_over(&slot, from, to, ttl(), budget());
    store.acquire(&slot, &first, ttl(), budget()).unwrap();
    proxy.hold_next();
    thread::scope(|scope| {
        let acquiring = scope.spawn(|| store.acquire(&slot, &second, ttl(), budget()));
        eventually("the command is under way", || proxy.is_holding());
        let granted = HandedOver::Granted { fencing: None };
        assert_eq!(hand(&first, &second).unwrap(), granted);
        let error = hand(&second, &third).expect_err("the second's command may still come");
        assert!(error.is_transient() && !error.is_unknown(), "{error:?}");
        assert_eq!(server.cli(&["GET", slot.as_str()]), second.as_str());
        acquiring.join().unwrap().expect_err("nothing is answered");
        let granted = HandedOver::Granted { fencing: None };
        assert_eq!(hand(&second, &third).unwrap(), granted);
        store.release(&slot, &third, budget()).unwrap();
        proxy.deliver();
        thread::sleep(A_WHILE);
        assert_eq!(server.cli(&["EXISTS", slot.as_str()]), "0");
    });
}
