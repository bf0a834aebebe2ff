//! Servers that stop being the one whose locks exclude, under live sessions.

use std::time::Duration;

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{GuardError, SandboxExecutionGuard};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database};

use super::{blocked, builder, enter, key, slot};

#[track_caller]
fn assert_unfit<T: std::fmt::Debug>(outcome: Result<T, GuardError>) {
    match outcome {
        Err(GuardError::Store {
            source, transient, ..
        }) => {
            let source = source.to_string();
            assert!(transient && source.contains("read-only"), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

pub fn a_server_that_takes_no_writes_gives_no_lease_and_keeps_none<D: Database>() {
    let server = Daemon::<D>::start();
    let hasty = builder::<D>(&server.url()).outage_tolerance(Duration::ZERO);
    let guard = hasty.build().unwrap();
    let leases = ["a", "b"].map(|value| enter(&guard, &key(value)));
    // Idle sessions from before.
    drop([enter(&guard, &key("c")), enter(&guard, &key("d"))]);
    D::read_only(&server, true);
    // PostgreSQL's sessions hear of it in their own time.
    eventually("the server gives no lease", || {
        guard.try_enter_now(&key("c")).is_err()
    });
    for _ in 0..20 {
        assert_unfit(guard.try_enter_now(&key("c")));
        assert_unfit(guard.try_enter_now(&key("a")));
    }
    assert_unfit(guard.holder(&key("c")));
    assert!(matches!(leases[0].renew(), Err(GuardError::NotHeld { .. })));
    eventually("the other lease is lost", || !leases[1].is_held());
    D::read_only(&server, false);
    for value in ["a", "b", "c"] {
        eventually("the slot is free again", || {
            matches!(guard.try_enter_now(&key(value)), Ok(Some(_)))
        });
    }
    drop(guard.try_enter_for(&key("a"), PATIENCE).unwrap());
}

/// The lock comes while the server is no primary any more.
pub fn a_wait_is_granted_nothing_on_a_server_that_became_read_only_meanwhile<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = builder::<D>(&server.url()).outage_tolerance(Duration::ZERO);
    let guard = guard.build().unwrap();
    let mut other = Client::start(&server);
    assert!(other.lock(&slot(&key("a"))));
    let waiting = Waiting::start(move || guard.try_enter(&key("a")).map(drop));
    eventually("it waits at the server", || blocked(&server) == 1);
    D::read_only(&server, true);
    assert!(other.unlock(&slot(&key("a"))));
    assert_unfit(waiting.result());
    eventually("nobody has the lock", || {
        server.holder(&slot(&key("a"))).is_none()
    });
}
