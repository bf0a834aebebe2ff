//! Few connections and many threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{Waiting, together};
use guard_core::GuardConfig;
use guard_redis::{ConfigError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, builder, connections, enter, guard, key};

fn given_pool(server: &RedisServer, size: u32) -> RedisSandboxExecutionGuard {
    let manager = builder(server).connection_manager().unwrap();
    let pool = r2d2::Pool::builder().max_size(size).build(manager).unwrap();
    RedisSandboxExecutionGuard::from_pool(pool)
        .retry_interval(Duration::from_millis(5))
        .build()
        .unwrap()
}

/// Threads on several guards count up a number that only the guard protects.
fn lose_nothing(guards: &[RedisSandboxExecutionGuard]) {
    const THREADS: usize = 16;
    const ENTRIES: u64 = 40;
    let count = AtomicU64::new(0);
    together(THREADS, |number| {
        let guard = &guards[number % guards.len()];
        for _ in 0..ENTRIES {
            let _lease = guard.try_enter(&key("busy")).unwrap();
            let read = count.load(Ordering::Relaxed);
            thread::yield_now();
            count.store(read + 1, Ordering::Relaxed);
        }
    });
    assert_eq!(count.into_inner(), THREADS as u64 * ENTRIES);
}

#[test]
fn two_guards_lose_no_update() {
    let server = RedisServer::start();
    lose_nothing(&[guard(&server), guard(&server)]);
}

#[test]
fn a_given_pool_loses_no_update() {
    let server = RedisServer::start();
    lose_nothing(&[given_pool(&server, 2), guard(&server)]);
}

#[test]
fn a_given_pool_is_used_and_not_outgrown() {
    let server = RedisServer::start();
    let guard = given_pool(&server, 2);
    together(8, |number| drop(enter(&guard, &key(&number.to_string()))));
    assert_eq!(connections(&server), 2);
}

#[test]
fn a_given_pool_hands_on_no_dead_connection_after_a_restart() {
    let mut server = RedisServer::start();
    let guard = given_pool(&server, 8);
    assert_eq!(connections(&server), 8);
    let lease = enter(&guard, &key("a"));
    server.restart();
    lease.close();
    together(20, |number| drop(enter(&guard, &key(&number.to_string()))));
    for number in 0..20 {
        drop(enter(&guard, &key(&number.to_string())));
    }
}

/// With 200 threads waiting for held slots, another slot is entered at once.
fn enter_beside_waiters(
    guard: &RedisSandboxExecutionGuard,
    other: &RedisSandboxExecutionGuard,
    slots: usize,
) {
    let leases: Vec<_> = (0..slots)
        .map(|slot| enter(other, &key(&format!("held-{slot}"))))
        .collect();
    let waiting: Vec<_> = (0..200)
        .map(|number| {
            let guard = guard.clone();
            let slot = key(&format!("held-{}", number % slots));
            Waiting::start(move || guard.try_enter(&slot).map(drop))
        })
        .collect();
    for number in 0..10 {
        let before = Instant::now();
        drop(enter(guard, &key(&format!("idle-{number}"))));
        assert!(before.elapsed() < SLACK, "{:?}", before.elapsed());
    }
    guard.close();
    for waiting in waiting {
        assert!(waiting.result().is_err());
    }
    drop(leases);
}

#[test]
fn two_hundred_who_wait_for_one_slot_hold_no_connection() {
    let server = RedisServer::start();
    let waiting = builder(&server).pool_size(2).build().unwrap();
    enter_beside_waiters(&waiting, &guard(&server), 1);
}

#[test]
fn two_hundred_who_wait_for_many_slots_hold_no_connection() {
    let server = RedisServer::start();
    let config = GuardConfig::default();
    let waiting = builder(&server)
        .settings(config)
        .pool_size(2)
        .build()
        .unwrap();
    enter_beside_waiters(&waiting, &guard(&server), 50);
}

#[test]
fn a_pool_of_none_is_refused() {
    let server = RedisServer::start();
    let error = builder(&server).pool_size(0).build().expect_err("no pool");
    assert!(matches!(error, ConfigError::InvalidSetting { .. }));
    assert!(error.to_string().contains("pool_size"), "{error}");
}
