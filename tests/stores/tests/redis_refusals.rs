//! Servers that do not let us have wake-ups: it is said once, and waiters poll. The tests read the log,
//! so one runs at a time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use guard_conformance::measure::alone;
use guard_conformance::{Waiting, eventually};
use guard_redis::{
    IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey, Wakeups,
};
use guard_store_tests::logged::{listen, warnings};
use guard_store_tests::redis_server::{RedisServer, Setup};
use log::LevelFilter::Warn;

const INTERVAL: Duration = Duration::from_millis(20);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(url).retry_interval(INTERVAL)
}

/// Several waiters on several slots, freed in ways that nobody tells them of.
fn waiters_get_in(server: &RedisServer, guard: &RedisSandboxExecutionGuard, round: usize) {
    let keys: Vec<_> = (0..5)
        .map(|number| key(&format!("{round}-{number}")))
        .collect();
    for key in &keys {
        server.cli(&["SET", guard.slot(key).as_str(), "foreign"]);
    }
    let waiting: Vec<_> = keys
        .iter()
        .map(|key| {
            let (guard, key) = (guard.clone(), key.clone());
            Waiting::start(move || guard.try_enter(&key))
        })
        .collect();
    for key in &keys {
        server.cli(&["DEL", guard.slot(key).as_str()]);
    }
    let freed = Instant::now();
    for waiting in waiting {
        assert!(waiting.result().unwrap().is_held());
    }
    // A few intervals, on a noisy machine.
    assert!(
        freed.elapsed() < Duration::from_millis(1_500),
        "{:?}",
        freed.elapsed()
    );
}

fn refused_once_and_polled(server: &RedisServer, url: &str) {
    let guard = builder(url).build().unwrap();
    for round in 0..3 {
        waiters_get_in(server, &guard, round);
    }
    eventually("the refusal is logged", || !warnings().is_empty());
    let warnings = warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("waiting polls"), "{warnings:?}");
}

/// The address for a user with all rights but those that `but` takes away.
fn restricted(server: &RedisServer, but: &[&str]) -> String {
    let mut rights = vec![
        "ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all",
    ];
    rights.extend(but);
    assert_eq!(server.cli(&rights), "OK");
    server.url().replace("redis://", "redis://limited:secret@")
}

#[test]
fn a_user_who_may_not_track_polls_and_is_told_once() {
    let _alone = alone();
    listen(Warn);
    let server = RedisServer::start();
    refused_once_and_polled(&server, &restricted(&server, &["-client|tracking"]));
}

#[test]
fn a_user_who_may_not_subscribe_polls_and_is_told_once() {
    let _alone = alone();
    listen(Warn);
    let server = RedisServer::start();
    refused_once_and_polled(&server, &restricted(&server, &["-subscribe"]));
    listen(Warn);
    refused_once_and_polled(&server, &restricted(&server, &["resetchannels"]));
}

#[test]
fn a_user_who_may_not_ask_for_the_connections_number_polls_and_is_told_once() {
    let _alone = alone();
    listen(Warn);
    let server = RedisServer::start();
    refused_once_and_polled(&server, &restricted(&server, &["-client"]));
}

#[test]
fn a_server_that_does_not_know_the_command_is_polled() {
    let _alone = alone();
    listen(Warn);
    let server = RedisServer::start_with(Setup {
        arguments: ["--rename-command", "CLIENT", ""].map(str::to_owned).into(),
        ..Setup::default()
    });
    refused_once_and_polled(&server, &server.url());
}

#[test]
fn polling_by_choice_needs_no_connection_and_is_not_complained_of() {
    let _alone = alone();
    listen(Warn);
    let server = RedisServer::start();
    let guard = builder(&server.url())
        .wakeups(Wakeups::Polling)
        .build()
        .unwrap();
    waiters_get_in(&server, &guard, 0);
    let clients = server.cli(&["CLIENT", "LIST"]);
    assert!(!clients.contains(" sub=1"), "{clients}");
    assert!(warnings().is_empty(), "{:?}", warnings());
}
