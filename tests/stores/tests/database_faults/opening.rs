//! Opening connections, and giving them up: beside servers that are stopped, over several addresses, by IPv6.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually};
use guard_core::SandboxExecutionGuard;
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::Database;
use guard_store_tests::everything_said;

use super::stalls::hasty;
use super::{builder, enter, guard, key};

/// How many connections to a port are open at this end.
fn connections(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let remote = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let lines = table.lines().map(|line| line.split_whitespace().skip(2));
    let states =
        lines.filter_map(|mut fields| (fields.next()? == remote).then(|| fields.next())?);
    states.filter(|state| *state == ESTABLISHED).count()
}

/// Calls of many threads beside a stopped server: what they began and gave up is a few connections, and the server
/// counts none of them against this host when it goes on.
pub fn a_crowd_beside_a_stopped_server_leaves_few_connections<D: Database>() {
    const FEW: usize = 9;
    const CALLERS: usize = 40;
    let server = Daemon::<D>::start();
    let stalled = hasty::<D>(&server.url()).build().unwrap();
    drop(enter(&stalled, &key("a")));
    server.stop_process();
    let begin = Instant::now();
    let mut most = 0;
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let stalled = &stalled;
            scope.spawn(move || {
                while begin.elapsed() < Duration::from_secs(12) {
                    // One may have been under way.
                    let outcome = stalled.try_enter_now(&key(&format!("b-{caller}")));
                    assert!(outcome.map_or_else(|error| error.is_transient(), |_| true));
                }
            });
        }
        while begin.elapsed() < Duration::from_secs(12) {
            thread::sleep(Duration::from_millis(200));
            // Those of the calls under way at the beginning are closed once they are given up.
            if begin.elapsed() > Duration::from_secs(2) {
                most = most.max(connections(server.port()));
            }
        }
    });
    server.cont_process();
    assert!(most <= FEW, "{most}");
    eventually("it goes on", || stalled.try_enter_now(&key("a")).is_ok());
    drop(guard(&server).try_enter_for(&key("a"), PATIENCE).unwrap());
    let aborted = D::aborted_handshakes(&server);
    assert!(aborted <= FEW, "{aborted}");
}

pub fn an_address_may_be_of_ipv6<D: Database>() {
    let server = Daemon::<D>::start_with(&[D::LISTEN_EVERYWHERE]);
    let end = format!("{}{}", server.port(), D::DATABASE);
    let (scheme, user) = (D::SCHEME, D::ADMINISTRATOR);
    let address = format!("{scheme}://{user}@[::1]:{end}");
    let guard = builder::<D>(&address).build().unwrap();
    drop(enter(&guard, &key("a")));
    // Shown as it is written, where nobody listens.
    let error = builder::<D>(&format!("{scheme}://{user}@[::1]:1{}", D::DATABASE));
    let text = everything_said(&error.build().unwrap_err());
    assert!(text.contains(&format!("{scheme}://[::1]:1")), "{text}");
}

pub fn why_nobody_could_connect_is_told_once<D: Database>() {
    let refused = builder::<D>(&D::url(1)).build().unwrap_err();
    let server = Daemon::<D>::start();
    let unknown = builder::<D>(&D::address(D::ADMINISTRATOR, server.port(), "/nothing"));
    for (error, cause) in [
        (refused, "Connection refused"),
        (unknown.build().unwrap_err(), "nothing"),
    ] {
        let mut links = Vec::new();
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(link) = next {
            links.push(link.to_string());
            next = link.source();
        }
        let told = |link: &&String| link.contains(cause);
        assert_eq!(links.iter().filter(told).count(), 1, "{links:?}");
        let repeated = |pair: &[String]| pair[0].contains(&*pair[1]);
        assert!(!links.windows(2).any(repeated), "{links:?}");
    }
}

/// A name that nobody knows, and one that is no name.
pub fn a_host_that_is_not_found_is_transient<D: Database>() {
    let address = format!("{}://u@nobody-has-this-name.invalid/d", D::SCHEME);
    let error = builder::<D>(&address).build().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
}
