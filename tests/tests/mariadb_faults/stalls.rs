//! Networks that swallow everything, for good.

use std::time::{Duration, Instant};

use guard_conformance::database::Database as _;
use guard_conformance::mariadb_server::{MariaDb, MariaDbServer};
use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::SandboxExecutionGuard;

use crate::database_faults::{builder, enter, guard, key};

/// The server gives up a client that it does not hear after 30 s; the holder has stopped believing before.
#[test]
fn a_holder_that_its_server_does_not_hear_is_given_up() {
    let server = MariaDbServer::start();
    let proxy = Proxy::to(server.port());
    let far = builder::<MariaDb>(&MariaDb::url(proxy.port()));
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
