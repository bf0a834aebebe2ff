//! Leases that are lost, and how soon that is known.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_conformance::{PATIENCE, eventually};
use guard_redis::{
    CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease, Wakeups,
};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, builder, exists, key};

const TTL: Duration = Duration::from_secs(3);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

/// Enters and answers when the loss is told.
fn lease(
    guard: &RedisSandboxExecutionGuard,
    value: &str,
) -> (SandboxLease, mpsc::Receiver<Instant>) {
    let lease = guard.try_enter(&key(value)).unwrap();
    let (tell, told) = mpsc::channel();
    lease
        .on_lost(move || tell.send(Instant::now()).unwrap())
        .unwrap();
    (lease, told)
}

/// With renewal and without wake-ups.
#[test]
fn a_lease_that_the_store_forgot_is_lost_within_a_third_of_its_ttl_and_an_operation() {
    let lose: [fn(&mut RedisServer); 2] = [
        |server| assert_eq!(server.cli(&["FLUSHALL"]), "OK"),
        RedisServer::restart,
    ];
    for lose in lose {
        let mut server = RedisServer::start();
        let guard = builder(&server.url())
            .lease_ttl(TTL)
            .operation_timeout(OPERATION_TIMEOUT)
            .wakeups(Wakeups::Polling)
            .build()
            .unwrap();
        let leases = ["a", "b", "c"].map(|value| lease(&guard, value));
        lose(&mut server);
        let gone = Instant::now();
        for (lease, told) in &leases {
            let told = told.recv_timeout(PATIENCE).unwrap() - gone;
            // Its own deadline would end it later.
            assert!(told < TTL / 3 + OPERATION_TIMEOUT + SLACK / 3, "{told:?}");
            assert!(!lease.is_held());
            assert_ne!(lease.close(), CloseOutcome::Deferred);
        }
    }
}

fn known_in_milliseconds(auto_renew: bool) {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server.url())
        .auto_renew(auto_renew)
        .build()
        .unwrap();
    forgiving_one_miss(|| {
        let times: Times = (0..30)
            .map(|_| {
                let (lease, told) = lease(&guard, "a");
                // Its keeper registers off the entering thread.
                std::thread::sleep(Duration::from_millis(150));
                let before = Instant::now();
                server.cli(&["DEL", guard.slot(&key("a")).as_str()]);
                let told = told.recv_timeout(PATIENCE).unwrap();
                assert!(!lease.is_held());
                told.saturating_duration_since(before)
            })
            .collect();
        println!("auto_renew {auto_renew}: {times}");
        if times.median() < Duration::from_millis(50) {
            Ok(())
        } else {
            Err(times.to_string())
        }
    });
}

#[test]
fn a_slot_that_an_operator_deletes_is_known_lost_within_milliseconds() {
    known_in_milliseconds(false);
    known_in_milliseconds(true);
}

#[test]
fn a_forced_release_says_whose_lease_it_ended_and_its_holder_learns_of_it() {
    let server = RedisServer::start();
    let holding = builder(&server.url()).owner("the-holder").build().unwrap();
    let operator = builder(&server.url()).build().unwrap();
    assert!(operator.force_release(&key("a")).unwrap().is_none());
    let (lease, told) = lease(&holding, "a");
    let ended = operator.force_release(&key("a")).unwrap().unwrap();
    assert_eq!(ended.owner(), Some("the-holder"));
    assert_eq!(ended.short_token(), lease.token().short());
    assert!(!exists(&server, holding.slot(&key("a")).as_str()));
    told.recv_timeout(PATIENCE).unwrap();
    assert!(!lease.is_held());
    let next = operator.try_enter_now(&key("a")).unwrap().unwrap();
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(next.renew().is_ok(), "the old holder's close left it alone");
    // A foreign holder is ended as well.
    drop(next);
    server.cli(&["SET", holding.slot(&key("a")).as_str(), "a stranger"]);
    assert!(
        operator
            .force_release(&key("a"))
            .unwrap()
            .unwrap()
            .owner()
            .is_none()
    );
    assert!(operator.try_enter_now(&key("a")).unwrap().is_some());
}

/// Without renewal and wake-ups nobody tells but the lease's own deadline; many of them, and a store that
/// hangs, make nobody late.
#[test]
fn deadlines_are_told_in_time_while_the_store_hangs() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(6);
    let guard = builder(&server.url())
        .auto_renew(false)
        .lease_ttl(ttl)
        .build()
        .unwrap();
    let leases: Vec<_> = (0..10)
        .map(|number| lease(&guard, &number.to_string()))
        .collect();
    let entered = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    server.stop_process();
    for (_, told) in &leases {
        let told = told.recv_timeout(PATIENCE).unwrap() - entered;
        assert!(told < ttl + Duration::from_secs(2) + SLACK, "{told:?}");
    }
    server.cont_process();
    drop(leases);
    eventually("the slots are free", || {
        guard.try_enter_now(&key("0")).is_ok_and(|l| l.is_some())
    });
}
