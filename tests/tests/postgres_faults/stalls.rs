//! Servers that are stopped and networks that swallow everything: nobody hangs, and nothing stays behind.

use std::time::{Duration, Instant};

use guard_conformance::postgres_server::{PostgresServer, url};
use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_postgres::{CloseOutcome, ConfigError, GuardError, SandboxExecutionGuard};

use crate::postgres_backend::Session;
use crate::{SLACK, builder, enter, guard, key};

const TIMEOUT: Duration = Duration::from_millis(500);

fn hasty(url: &str) -> guard_postgres::PostgresGuardBuilder {
    builder(url)
        .operation_timeout(TIMEOUT)
        .outage_tolerance(Duration::ZERO)
}

#[track_caller]
fn in_time<T>(time: Duration, call: impl FnOnce() -> T) -> T {
    let before = Instant::now();
    let answer = call();
    let took = before.elapsed();
    assert!(took < time + SLACK, "{took:?}");
    answer
}

#[track_caller]
fn assert_failed<T>(outcome: Result<T, GuardError>) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) => assert!(error.is_transient(), "{error:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_server_holds_nobody_beyond_the_operation_timeout() {
    let server = PostgresServer::start();
    let (stalled, other) = (hasty(&server.url()).build().unwrap(), guard(&server));
    let lease = enter(&stalled, &key("a"));
    let kept = enter(&stalled, &key("b"));
    server.stop_process();
    in_time(TIMEOUT, || assert_failed(stalled.try_enter_now(&key("c"))));
    in_time(TIMEOUT, || assert_failed(stalled.try_enter(&key("d"))));
    in_time(TIMEOUT, || assert_failed(stalled.holder(&key("a"))));
    // Nobody knows: the lease stays what it was.
    in_time(TIMEOUT, || assert_failed(kept.renew()));
    assert!(kept.is_held());
    in_time(TIMEOUT, || {
        assert_eq!(lease.close(), CloseOutcome::Deferred)
    });
    let refused = in_time(TIMEOUT, || hasty(&server.url()).build().unwrap_err());
    assert!(matches!(&refused, ConfigError::Connect { .. }) && refused.is_transient());
    server.cont_process();

    // Whatever was under way has left no ghost.
    for value in ["a", "c", "d"] {
        drop(other.try_enter_for(&key(value), PATIENCE).unwrap());
    }
    eventually("the lease that was kept is renewed", || {
        kept.renew().is_ok()
    });
    assert_eq!(kept.close(), CloseOutcome::Released);
}

#[test]
fn a_black_hole_holds_nobody_and_leaves_no_lock() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(server.port());
    let (far, near) = (hasty(&url(proxy.port())).build().unwrap(), guard(&server));
    let lease = enter(&far, &key("a"));
    proxy.black_hole(true);
    in_time(TIMEOUT, || assert_failed(far.try_enter_now(&key("b"))));
    in_time(TIMEOUT, || {
        assert_eq!(lease.close(), CloseOutcome::Deferred)
    });
    assert!(
        near.try_enter_now(&key("a")).unwrap().is_none(),
        "not free yet"
    );
    // What was swallowed is delivered now, the lock call of the entry that gave up included.
    proxy.heal();
    for value in ["a", "b"] {
        drop(near.try_enter_for(&key(value), PATIENCE).unwrap());
    }
}

/// The server gives up a client that it does not hear after 25 s; the holder has stopped believing before.
#[test]
fn a_holder_that_does_not_hear_its_server_stops_believing_in_time() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(server.port());
    let far = builder(&url(proxy.port())).build().unwrap();
    let lease = enter(&far, &key("a"));
    proxy.black_hole(true);
    let before = Instant::now();
    eventually("the lease is lost", || !lease.is_held());
    let took = before.elapsed();
    assert!(
        took > Duration::from_secs(15) && took < Duration::from_secs(22),
        "{took:?}"
    );
    proxy.heal();
    drop(guard(&server).try_enter_for(&key("a"), PATIENCE).unwrap());
}

#[test]
fn a_lock_call_that_is_executed_late_leaves_no_ghost() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(server.port());
    let (far, near) = (hasty(&url(proxy.port())).build().unwrap(), guard(&server));
    for round in 0..5 {
        let key = key(&format!("slot-{round}"));
        drop(enter(&far, &key));
        proxy.hold_next();
        assert_failed(far.try_enter_now(&key));
        // The call's session is ended over another connection, so it is in vain.
        eventually("the call is settled", || {
            near.try_enter_now(&key).unwrap().is_some()
        });
        proxy.deliver();
        drop(near.try_enter_for(&key, PATIENCE).unwrap());
        drop(far.try_enter_for(&key, PATIENCE).unwrap());
    }
}

#[test]
fn a_wait_under_way_ends_in_time_when_the_server_stops() {
    let server = PostgresServer::start();
    let guard = builder(&server.url())
        .operation_timeout(TIMEOUT)
        .build()
        .unwrap();
    let mut psql = Session::start(&server);
    let number = guard.lock_number(&key("a"));
    psql.ask(&format!("SELECT pg_try_advisory_lock({number})"));
    let patience = Duration::from_secs(1);
    let before = Instant::now();
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), patience).map(drop))
    };
    eventually("it waits at the server", || crate::blocked(&server) == 1);
    server.stop_process();
    let outcome = waiting.result();
    let took = before.elapsed();
    server.cont_process();
    assert!(outcome.is_err());
    assert!(took < patience + TIMEOUT + SLACK, "{took:?}");
    // The session that waited is ended as soon as that is possible, before it can take the slot.
    drop(psql);
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
    assert_eq!(crate::blocked(&server), 0);
}

#[test]
fn a_backend_that_does_not_end_keeps_nobody_from_other_slots() {
    let server = PostgresServer::start();
    let guard = hasty(&server.url()).build().unwrap();
    let lease = enter(&guard, &key("a"));
    let backend = server.sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted");
    let signal = |name: &str| {
        let kill = std::process::Command::new("kill")
            .args([name, backend.trim()])
            .status();
        assert!(kill.unwrap().success());
    };
    signal("-STOP");
    in_time(TIMEOUT, || {
        assert_eq!(lease.close(), CloseOutcome::Deferred)
    });
    for value in ["b", "c", "d"] {
        drop(enter(&guard, &key(value)));
    }
    signal("-CONT");
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
}
