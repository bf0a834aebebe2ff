//! Servers that stop, go and come back.

use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually, together};
use guard_core::DEFAULT_OPERATION_TIMEOUT;
use guard_redis::{CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, builder, connections, enter, guard, key};

const PATIENT: Duration = Duration::from_secs(1);

#[track_caller]
fn assert_store_failed<T>(outcome: Result<T, GuardError>) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) => assert!(error.is_transient(), "{error:?}"),
        other => panic!("{other:?}"),
    }
}

/// Uses all of the guard's connections at once, until all of them are open.
fn open_all(server: &RedisServer, guard: &RedisSandboxExecutionGuard, pool_size: usize) {
    eventually("every connection of the pool is open", || {
        together(2 * pool_size, |number| {
            for _ in 0..10 {
                drop(enter(guard, &key(&format!("warm-{number}"))));
            }
        });
        connections(server) == pool_size
    });
}

#[test]
fn an_entry_returns_in_time_while_the_server_is_stopped() {
    let server = RedisServer::start();
    let guard = guard(&server);
    open_all(&server, &guard, 8);
    server.stop_process();
    let before = Instant::now();
    assert_store_failed(guard.try_enter_for(&key("a"), PATIENT));
    let took = before.elapsed();
    assert!(
        took < PATIENT + DEFAULT_OPERATION_TIMEOUT + SLACK,
        "{took:?}"
    );

    let before = Instant::now();
    assert_store_failed(guard.try_enter_now(&key("b")));
    assert!(before.elapsed() < DEFAULT_OPERATION_TIMEOUT + SLACK);
    server.cont_process();
    assert!(guard.try_enter_for(&key("c"), PATIENCE).is_ok());
}

#[test]
fn a_wait_under_way_returns_in_time_when_the_server_stops() {
    let server = RedisServer::start();
    let (guard, other) = (guard(&server), guard(&server));
    let _lease = enter(&other, &key("a"));
    let before = Instant::now();
    let waiting = Waiting::start(move || {
        let outcome = guard.try_enter_for(&key("a"), PATIENT);
        (outcome, Instant::now())
    });
    server.stop_process();
    let (outcome, returned) = waiting.result();
    assert_store_failed(outcome);
    let took = returned - before;
    assert!(
        took < PATIENT + DEFAULT_OPERATION_TIMEOUT + SLACK,
        "{took:?}"
    );
    server.cont_process();
}

#[test]
fn getting_a_connection_counts_against_the_same_time() {
    let server = RedisServer::start();
    let guard = builder(&server).pool_size(1).build().unwrap();
    server.stop_process();
    // One of them has the only connection, the others wait for it.
    let took = together(4, |number| {
        let before = Instant::now();
        assert_store_failed(guard.try_enter_for(&key(&number.to_string()), PATIENT));
        before.elapsed()
    });
    let longest = took.into_iter().max().unwrap();
    assert!(
        longest < PATIENT + DEFAULT_OPERATION_TIMEOUT + SLACK,
        "{longest:?}"
    );
    server.cont_process();
}

#[test]
fn a_close_while_the_server_is_stopped_is_deferred_and_made_good() {
    let server = RedisServer::start();
    let guard = builder(&server)
        .operation_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    let lease = enter(&guard, &key("a"));
    let slot = guard.slot(&key("a"));
    server.stop_process();
    let before = Instant::now();
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    assert!(before.elapsed() < Duration::from_millis(500) + SLACK);
    assert_eq!(lease.close(), CloseOutcome::AlreadyClosed);
    server.cont_process();
    // Long before the TTL of 30 minutes.
    eventually("the slot is released", || {
        server.cli(&["EXISTS", slot.as_str()]) == "0"
    });
    assert!(guard.try_enter_for(&key("a"), PATIENCE).is_ok());
}

#[test]
fn a_guard_goes_in_time_while_the_server_is_stopped() {
    let server = RedisServer::start();
    let guard = builder(&server)
        .operation_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    let lease = enter(&guard, &key("a"));
    server.stop_process();
    let before = Instant::now();
    drop(lease);
    drop(guard);
    // The close's own try, and the grace for what was left of it.
    assert!(before.elapsed() < Duration::from_millis(1_000) + SLACK);
    server.cont_process();
}

#[test]
fn a_restart_between_enter_and_close_does_not_fail_the_close() {
    let mut server = RedisServer::start();
    let guard = guard(&server);
    let lease = enter(&guard, &key("a"));
    // All scripts were loaded, and are gone with the old server.
    lease.renew().unwrap();
    guard.holder(&key("a")).unwrap();
    drop(enter(&guard, &key("b")));
    server.restart();
    let outcome = lease.close();
    assert!(
        matches!(outcome, CloseOutcome::AlreadyGone | CloseOutcome::Released),
        "{outcome:?}"
    );
    assert_eq!(enter(&guard, &key("a")).close(), CloseOutcome::Released);
}

#[test]
fn scripts_that_were_flushed_are_loaded_again() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let lease = enter(&guard, &key("a"));
    for _ in 0..3 {
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
        lease.renew().unwrap();
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
        assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
        assert!(guard.holder(&key("a")).unwrap().is_some());
    }
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    assert_eq!(lease.close(), CloseOutcome::Released);
}

#[test]
fn no_dead_connection_reaches_a_caller_after_a_restart() {
    let mut server = RedisServer::start();
    let guard = guard(&server);
    for round in 0..3 {
        open_all(&server, &guard, 8);
        server.restart();
        if round % 2 == 0 {
            for number in 0..20 {
                drop(enter(&guard, &key(&number.to_string())));
            }
        } else {
            // All of the idle connections at the same moment.
            together(20, |number| drop(enter(&guard, &key(&number.to_string()))));
        }
    }
}

#[test]
fn connections_that_the_server_closed_reach_no_caller() {
    let server = RedisServer::start();
    let guard = guard(&server);
    open_all(&server, &guard, 8);
    let lease = enter(&guard, &key("a"));
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    lease.renew().unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(lease.close(), CloseOutcome::Released);
    together(20, |number| drop(enter(&guard, &key(&number.to_string()))));
}

#[test]
fn waiters_sit_out_a_restart() {
    let mut server = RedisServer::start();
    let (here, there) = (guard(&server), guard(&server));
    let lease = enter(&here, &key("a"));
    let waiting = Waiting::start(move || there.try_enter(&key("a")));
    server.restart();
    // The memory is gone, so nobody holds the slot any more.
    let next = waiting.result().unwrap();
    assert_ne!(lease.close(), CloseOutcome::Deferred);
    assert!(
        next.renew().is_ok(),
        "the old lease's close left the new one alone"
    );
}
