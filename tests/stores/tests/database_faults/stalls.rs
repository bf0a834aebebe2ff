//! Servers that are stopped and networks that swallow everything: nobody hangs, and nothing stays behind.

use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{CloseOutcome, ConfigError, GuardError, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database, GuardBuilder};

use super::{SLACK, blocked, builder, enter, guard, key, slot};

pub const TIMEOUT: Duration = Duration::from_millis(500);

pub fn hasty<D: Database>(url: &str) -> GuardBuilder<D> {
    builder(url)
        .operation_timeout(TIMEOUT)
        .outage_tolerance(Duration::ZERO)
}

#[track_caller]
pub fn in_time<T>(time: Duration, call: impl FnOnce() -> T) -> T {
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

pub fn a_stopped_server_holds_nobody_beyond_the_operation_timeout<D: Database>() {
    let server = Daemon::<D>::start();
    let (stalled, other) = (hasty::<D>(&server.url()).build().unwrap(), guard(&server));
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
    let refused = in_time(TIMEOUT, || hasty::<D>(&server.url()).build().unwrap_err());
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

pub fn a_black_hole_holds_nobody_and_leaves_no_lock<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let (far, near) = (
        hasty::<D>(&D::url(proxy.port())).build().unwrap(),
        guard(&server),
    );
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

/// The server gives up a client that it does not hear only later.
pub fn a_holder_that_does_not_hear_its_server_stops_believing_in_time<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let far = builder::<D>(&D::url(proxy.port())).build().unwrap();
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

/// The server gives up a client that says nothing after some time; the holder has stopped believing before.
pub fn a_holder_that_its_server_does_not_hear_is_given_up<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let far = builder::<D>(&D::url(proxy.port()));
    let (far, near) = (far.build().unwrap(), guard(&server));
    let lease = enter(&far, &key("a"));
    proxy.black_hole(true);
    let before = Instant::now();
    let next = Waiting::start(move || near.try_enter_for(&key("a"), 2 * PATIENCE));
    eventually("the lease is lost", || !lease.is_held());
    assert!(!next.is_over());
    // Nobody has to tell the server.
    drop(next.result().unwrap());
    let took = before.elapsed();
    assert!(took < Duration::from_secs(33), "{took:?}");
}

pub fn a_lock_call_that_is_executed_late_leaves_no_ghost<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let (far, near) = (
        hasty::<D>(&D::url(proxy.port())).build().unwrap(),
        guard(&server),
    );
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

pub fn a_wait_under_way_ends_in_time_when_the_server_stops<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = builder::<D>(&server.url())
        .operation_timeout(TIMEOUT)
        .build()
        .unwrap();
    let mut client = Client::start(&server);
    assert!(client.lock(&slot(&key("a"))));
    let patience = Duration::from_secs(1);
    let before = Instant::now();
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), patience).map(drop))
    };
    eventually("it waits at the server", || blocked(&server) == 1);
    server.stop_process();
    let outcome = waiting.result();
    let took = before.elapsed();
    server.cont_process();
    assert!(outcome.is_err());
    assert!(took < patience + TIMEOUT + SLACK, "{took:?}");
    // The session that waited is ended as soon as that is possible, before it can take the slot.
    drop(client);
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
    assert_eq!(blocked(&server), 0);
}
