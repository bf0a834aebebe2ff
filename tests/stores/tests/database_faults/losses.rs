//! Sessions that end while they carry a lease.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use guard_conformance::proxy::{Direction, Proxy};
use guard_conformance::{PATIENCE, eventually};
use guard_core::{CloseOutcome, GuardError, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::Database;

use super::{SLACK, builder, enter, guard, key, sessions, slot};

/// How seldom a session is asked whether it lives.
const PROBED_WITHIN: Duration = Duration::from_secs(2);

pub fn a_session_that_is_killed_is_reported_as_a_lost_lease<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let lease = enter(&guard, &key("a"));
    let (tell, told) = mpsc::channel();
    lease.on_lost(move || tell.send(()).unwrap()).unwrap();
    let before = Instant::now();
    server.end(&server.holder(&slot(&key("a"))).unwrap());
    told.recv_timeout(PATIENCE).unwrap();
    let took = before.elapsed();
    assert!(took < PROBED_WITHIN + SLACK, "{took:?}");
    assert!(!lease.is_held());
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    drop(enter(&guard, &key("a")));
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
}

pub fn a_lease_is_lost_with_its_server_and_the_next_entry_meets_no_error<D: Database>() {
    let mut server = Daemon::<D>::start();
    let guard = guard(&server);
    let lease = enter(&guard, &key("a"));
    drop(enter(&guard, &key("b")));
    server.restart();
    assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
    assert!(!lease.is_held());
    let next = enter(&guard, &key("a"));
    assert!(next.is_held() && next.renew().is_ok());
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert_eq!(next.close(), CloseOutcome::Released);
}

pub fn a_lease_whose_connection_is_cut_is_lost_and_frees_its_slot<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let cut_off = builder::<D>(&D::url(proxy.port())).build().unwrap();
    let other = guard(&server);
    let lease = enter(&cut_off, &key("a"));
    proxy.cut_all();
    eventually("the lease is lost", || !lease.is_held());
    drop(other.try_enter_for(&key("a"), PATIENCE).unwrap());
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
}

pub fn a_holder_that_overstays_its_ttl_loses_the_slot<D: Database>() {
    let server = Daemon::<D>::start();
    let ttl = Duration::from_millis(500);
    let hasty = builder::<D>(&server.url()).lease_ttl(ttl).build().unwrap();
    let other = guard(&server);
    let (before, lease) = (Instant::now(), enter(&hasty, &key("a")));
    let next = other.try_enter_for(&key("a"), PATIENCE).unwrap();
    let took = before.elapsed();
    assert!(
        took >= ttl - Duration::from_millis(2) && took < ttl + SLACK,
        "{took:?}"
    );
    assert!(!lease.is_held() && next.is_held());
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    assert!(next.renew().is_ok());
}

pub fn renewal_keeps_a_lease_beyond_its_ttl_until_max_hold<D: Database>() {
    let server = Daemon::<D>::start();
    let ttl = Duration::from_millis(600);
    let renewing = builder::<D>(&server.url())
        .lease_ttl(ttl)
        .auto_renew(true)
        .max_hold(3 * ttl)
        .build()
        .unwrap();
    let other = guard(&server);
    let (before, _lease) = (Instant::now(), enter(&renewing, &key("a")));
    let _next = other.try_enter_for(&key("a"), PATIENCE).unwrap();
    let took = before.elapsed();
    assert!(
        took >= 3 * ttl - ttl / 3 && took < 5 * ttl + SLACK,
        "{took:?}"
    );
}

pub fn every_session_ends_with_its_guard<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let lease = enter(&guard, &key("a"));
    drop(enter(&guard, &key("b")));
    assert!(sessions(&server) >= 2);
    drop(guard);
    assert_eq!(lease.close(), CloseOutcome::Released);
    drop(lease);
    eventually("the sessions are gone", || sessions(&server) == 0);
}

/// The slot was the lease's until it was closed: no loss.
pub fn a_lease_whose_connection_is_cut_at_the_unlock_was_its_holders<D: Database>() {
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let far = builder::<D>(&D::url(proxy.port())).build().unwrap();
    let near = guard(&server);
    for direction in [Direction::Request, Direction::Reply] {
        let lease = enter(&far, &key("a"));
        // A cut that comes while the statement is being sent cannot be told from one before.
        proxy.delay(Duration::from_millis(20));
        assert!(lease.renew().is_ok());
        proxy.cut_after(direction, 0);
        let outcome = lease.close();
        if proxy.has_cut() {
            assert!(
                matches!(outcome, CloseOutcome::Released | CloseOutcome::Deferred),
                "{direction:?}: {outcome:?}"
            );
        }
        proxy.heal();
        drop(near.try_enter_for(&key("a"), PATIENCE).unwrap());
    }
}
