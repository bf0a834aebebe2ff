//! Connections that are not ours are never ended.

use std::time::Duration;

use guard_conformance::PATIENCE;
use guard_core::{Budget, LeaseStore};
use redis::{Client, Connection, cmd};

use crate::{builder, key, start, token, ttl};

fn strangers(url: &str) -> Vec<Connection> {
    let client = Client::open(url).unwrap();
    let connect = |_| client.get_connection().unwrap();
    (0..40).map(connect).collect()
}

/// A restarted server gives the numbers of its connections again; on a Unix socket all have the same address.
#[test]
fn a_stranger_who_has_got_the_number_of_our_connection_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock").display().to_string();
    let mut server = start(&["--unixsocket", &socket]);
    let url = format!("unix://{socket}");
    let guard = builder(&url).build().unwrap();
    let (store, slot, token) = (guard.store(), guard.slot(&key("a")), token());
    server.stop_process();
    let budget = Budget::new(Duration::from_millis(200));
    let answer = store.acquire(&slot, &token, ttl(), budget);
    assert!(answer.unwrap_err().is_unknown());
    assert!(store.in_doubt(&token));
    server.restart();
    let mut strangers = strangers(&url);
    // Whatever came over the connection has ended with the server.
    store
        .release(&slot, &token, Budget::new(PATIENCE))
        .expect("it is final");
    assert!(!store.in_doubt(&token));
    for (index, stranger) in strangers.iter_mut().enumerate() {
        let answer: Result<String, _> = cmd("PING").query(stranger);
        assert!(answer.is_ok(), "stranger {index} was cut off: {answer:?}");
    }
}
