//! Passwords: checked, and never told.

use std::time::Instant;

use guard_core::SandboxExecutionGuard;
use guard_redis::{ConfigError, RedisSandboxExecutionGuard};
use guard_store_tests::everything_said;
use guard_store_tests::redis_server::{RedisServer, Setup};

use crate::{SLACK, enter, key};

const RIGHT: &str = "correct-horse";
const WRONG: &str = "battery-staple";

fn server() -> RedisServer {
    RedisServer::start_with(Setup {
        password: Some(RIGHT.to_owned()),
        ..Setup::default()
    })
}

fn url(server: &RedisServer, credentials: &str) -> String {
    format!("redis://{credentials}127.0.0.1:{}/0", server.port())
}

#[track_caller]
fn refused(url: &str, expected: &str) {
    let before = Instant::now();
    let built = RedisSandboxExecutionGuard::builder(url).build();
    let error = built.expect_err("the server lets nobody in");
    assert!(before.elapsed() < SLACK);
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
    assert!(!error.is_transient(), "{error:?}");
    let text = everything_said(&error);
    assert!(text.contains(expected), "{expected:?} not in {text}");
    assert!(!text.contains(WRONG), "{text}");
}

#[test]
fn a_wrong_password_is_refused_and_not_told() {
    let server = server();
    refused(&url(&server, &format!(":{WRONG}@")), "WRONGPASS");
    refused(&url(&server, &format!("default:{WRONG}@")), "WRONGPASS");
    refused(&url(&server, &format!("nobody:{WRONG}@")), "WRONGPASS");
}

#[test]
fn a_password_that_is_missing_is_asked_for() {
    let server = server();
    refused(&url(&server, ""), "NOAUTH");
}

#[test]
fn a_password_that_nobody_asked_for_is_refused_and_not_told() {
    let server = RedisServer::start();
    refused(&url(&server, &format!(":{WRONG}@")), "AUTH");
}

#[test]
fn the_right_password_works_and_is_in_no_debug_output() {
    let server = server();
    let builder = RedisSandboxExecutionGuard::builder(server.url());
    let shown = format!("{builder:?} {builder:#?}");
    let guard = builder.build().unwrap();
    let lease = enter(&guard, &key("a"));
    let store = guard.store();
    let shown = format!("{shown} {guard:?} {guard:#?} {store:?} {lease:?}");
    assert!(!shown.contains(RIGHT), "{shown}");
}

#[test]
fn a_url_that_cannot_be_read_does_not_tell_its_password() {
    for url in [
        format!("redis://:{WRONG}@127.0.0.1:port/0"),
        format!("redis://:{WRONG}@127.0.0.1:99999/0"),
        format!("redis://:{WRONG}@127.0.0.1/database"),
        format!("redis://:{WRONG}@"),
        format!("http://user:{WRONG}@127.0.0.1"),
        format!("redis:{WRONG}"),
        format!(":{WRONG}@127.0.0.1:6379"),
    ] {
        let builder = RedisSandboxExecutionGuard::builder(&*url);
        let shown = format!("{builder:?}");
        let error = builder.build().expect_err(&url);
        let text = shown + &everything_said(&error);
        assert!(!text.contains(WRONG), "{text}");
    }
}

#[test]
fn an_outage_does_not_tell_the_password() {
    let mut server = server();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .outage_tolerance(std::time::Duration::ZERO)
        .build()
        .unwrap();
    server.kill();
    let error = guard.try_enter(&key("a")).expect_err("no server");
    let text = everything_said(&error);
    assert!(!text.contains(RIGHT), "{text}");
}
