//! A holder stops relying on its lease before the store frees the slot, however slow the way is.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::proxy::Proxy;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease};
use guard_store_tests::redis_server::RedisServer;

use crate::{builder, key};

const TTL: Duration = Duration::from_secs(2);
/// One way.
const DELAY: Duration = Duration::from_millis(150);

/// Asserts that the lease is not relied on for longer than its slot is kept. Only one process is asked at a
/// time, so the store may have prolonged the slot in between, but never shortened.
#[track_caller]
fn assert_shorter(eye: &mut redis::Connection, slot: &str, lease: &SandboxLease) {
    let relied_on = Instant::now() + lease.remaining();
    if lease.is_held() {
        let kept: i64 = redis::cmd("PTTL").arg(slot).query(eye).unwrap();
        let kept = Duration::from_millis(u64::try_from(kept).expect("the slot is kept"));
        assert!(
            relied_on <= Instant::now() + kept,
            "relied on for longer than {kept:?}"
        );
    }
}

#[test]
fn a_lease_is_never_relied_on_for_longer_than_the_store_keeps_its_slot() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let client = redis::Client::open(server.url()).unwrap();
    let mut eye = client.get_connection().unwrap();
    for by_hand in [false, true] {
        let guard = builder(&proxy.url())
            .auto_renew(!by_hand)
            .lease_ttl(TTL)
            .build()
            .unwrap();
        // The scripts are loaded while that is quick.
        guard.try_enter(&key("a")).unwrap().renew().unwrap();
        proxy.delay(DELAY);
        let lease = guard.try_enter(&key("a")).unwrap();
        let slot = guard.slot(&key("a"));
        for round in 0..400 {
            if by_hand && round % 50 == 20 {
                lease.renew().unwrap();
            }
            assert_shorter(&mut eye, slot.as_str(), &lease);
            thread::sleep(Duration::from_millis(10));
        }
        assert!(lease.is_held());
        proxy.delay(Duration::ZERO);
        lease.close();
    }
}

#[test]
fn a_grant_that_took_longer_than_the_ttl_is_no_lease() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard: RedisSandboxExecutionGuard = builder(&proxy.url())
        .auto_renew(false)
        .lease_ttl(2 * DELAY)
        .build()
        .unwrap();
    let start = Instant::now();
    proxy.delay(2 * DELAY);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(5 * DELAY);
            proxy.delay(Duration::ZERO);
        });
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        assert!(lease.is_held());
        assert!(
            start.elapsed() > 4 * DELAY,
            "the first answer took longer than the TTL"
        );
    });
}

#[test]
fn a_grant_that_came_late_is_given_back_within_the_same_operations_time() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = builder(&proxy.url())
        .auto_renew(false)
        .lease_ttl(Duration::from_millis(500))
        .operation_timeout(TIMEOUT)
        .build()
        .unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    // The grant comes after 1.7 s, and giving it back would take as long again.
    proxy.delay(Duration::from_millis(850));
    let before = Instant::now();
    let entered = guard.try_enter_now(&key("a"));
    let took = before.elapsed();
    assert!(!matches!(entered, Ok(Some(_))), "{entered:?}");
    assert!(took < TIMEOUT + Duration::from_secs(1), "{took:?}");
    proxy.heal();
}
