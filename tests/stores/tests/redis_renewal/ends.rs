//! Closing and renewing are ordered: no key comes back or lives on after its close.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{eventually, together};
use guard_redis::{CloseOutcome, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, builder, exists, key};

const CYCLES: usize = 10_000;
const THREADS: usize = 8;

#[test]
fn no_key_lives_on_after_its_close_in_ten_thousand_short_leases() {
    for fencing in [false, true] {
        let server = RedisServer::start();
        let guard = builder(&server.url())
            .lease_ttl(Duration::from_millis(20))
            .fencing(fencing)
            .build()
            .unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        together(THREADS, |thread| {
            let mut eye = client.get_connection().unwrap();
            for cycle in 0..CYCLES / THREADS / 2 {
                let key = key(&format!("{thread}-{}", cycle % 7));
                let slot = guard.slot(&key);
                let lease = guard.try_enter(&key).unwrap();
                // Some are closed just when they are renewed.
                thread::sleep(Duration::from_micros(((cycle * 37) % 16_000) as u64));
                let outcome = lease.close();
                assert_ne!(outcome, CloseOutcome::Deferred);
                let left: bool = redis::cmd("EXISTS")
                    .arg(slot.as_str())
                    .query(&mut eye)
                    .unwrap();
                assert!(!left, "{slot:?} is there after its close");
            }
        });
        thread::sleep(Duration::from_millis(50));
        let left = server.cli(&["--scan", "--pattern", "agentscope:*"]);
        assert_eq!(left, "", "keys came back");
    }
}

#[test]
fn max_hold_ends_the_renewal_and_then_the_lease() {
    let server = RedisServer::start();
    let ttl = Duration::from_millis(600);
    let max_hold = Duration::from_secs(2);
    let guard = builder(&server.url())
        .lease_ttl(ttl)
        .max_hold(max_hold)
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let start = Instant::now();
    eventually("the lease ends", || !lease.is_held());
    let held = start.elapsed();
    assert!(held > max_hold && held < max_hold + ttl + SLACK, "{held:?}");
    eventually("the slot is free", || {
        !exists(&server, guard.slot(&key("a")).as_str())
    });
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
}

#[test]
fn a_lease_that_is_renewed_outlasts_its_ttl_many_times() {
    let server = RedisServer::start();
    let ttl = Duration::from_millis(500);
    let guard = builder(&server.url()).lease_ttl(ttl).build().unwrap();
    let other = builder(&server.url()).build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    assert!(other.try_enter_for(&key("a"), 6 * ttl).is_err());
    assert!(lease.is_held());
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert!(other.try_enter_now(&key("a")).unwrap().is_some());
}

#[test]
fn a_lease_that_was_forgotten_is_renewed_no_more_than_its_guard_lives() {
    let server = RedisServer::start();
    let ttl = Duration::from_millis(300);
    let guard = builder(&server.url()).lease_ttl(ttl).build().unwrap();
    let slot = guard.slot(&key("a"));
    // As a thread that hangs for ever: nobody will close it.
    std::mem::forget(guard.try_enter(&key("a")).unwrap());
    thread::sleep(3 * ttl);
    assert!(
        exists(&server, slot.as_str()),
        "it is renewed as long as anybody could use it"
    );
    assert!(guard.force_release(&key("a")).unwrap().is_some());
    assert!(guard.try_enter_for(&key("a"), SLACK).is_ok());
}
