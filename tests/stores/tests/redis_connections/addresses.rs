//! Names with several addresses, and addresses of all kinds.

use std::error::Error;

use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::everything_said;
use guard_store_tests::redis_server::{RedisServer, Setup};

use crate::key;

#[test]
fn an_ipv6_address_is_reached_and_shown_in_brackets() {
    let port = guard_store_tests::daemon::free_port();
    let server = RedisServer::start_with(Setup {
        arguments: ["--bind", "127.0.0.1", "::1"].map(str::to_owned).into(),
        ..Setup::default()
    });
    let guard = RedisSandboxExecutionGuard::builder(format!("redis://[::1]:{}/", server.port()))
        .build()
        .unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    let nobody = RedisSandboxExecutionGuard::builder(format!("redis://[::1]:{port}/")).build();
    let said = nobody.expect_err("nobody listens").to_string();
    assert!(said.contains(&format!("redis://[::1]:{port}")), "{said}");
}

#[test]
fn a_password_that_is_not_escaped_is_told_to_be_and_not_told() {
    for password in ["s3cr@t/pass", "s3/cret", "s3#cret", "s3?cret", "s3c:/ret"] {
        for url in [
            format!("redis://app:{password}@127.0.0.1:1/0"),
            format!("redis://:{password}@127.0.0.1:1/"),
            format!("rediss://app:{password}@127.0.0.1/"),
        ] {
            let builder = RedisSandboxExecutionGuard::builder(&*url);
            let shown = format!("{builder:?}");
            let error = builder.build().expect_err(&url);
            let said = everything_said(&error);
            assert!(said.contains("percent-encod"), "{url}: {said}");
            for part in ["s3", "cret", "pass", "cr@t"] {
                let text = format!("{shown}{said}").replace("password", "");
                assert!(!text.contains(part), "{url}: {part} in {text}");
            }
        }
    }
}

#[test]
fn a_socket_that_is_not_there_is_said_to_be_missing() {
    let built = RedisSandboxExecutionGuard::builder("unix:///nowhere/redis.sock").build();
    let said = everything_said(&built.expect_err("no socket"));
    assert!(said.contains("no socket"), "{said}");
    assert!(!said.contains("refused"), "{said}");
}

/// No link of a chain of causes says what the one before has said.
#[track_caller]
fn assert_says_nothing_twice(error: &dyn Error) -> String {
    let mut links = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        links.push(error.to_string());
        cause = error.source();
    }
    for pair in links.windows(2) {
        assert_ne!(pair[0], pair[1], "{links:#?}");
    }
    links.join(": ")
}

#[test]
fn a_chain_of_causes_repeats_nothing_and_ends_in_the_cause() {
    let locked = RedisServer::start_with(Setup {
        password: Some("right".to_owned()),
        ..Setup::default()
    });
    let free = guard_store_tests::daemon::free_port();
    for (url, cause) in [
        (format!("redis://127.0.0.1:{free}/"), "os error"),
        (
            format!("redis://:wrong@127.0.0.1:{}/", locked.port()),
            "invalid username-password pair",
        ),
        (
            format!("redis://127.0.0.1:{}/", locked.port()),
            "Authentication required",
        ),
        ("unix:///nowhere/redis.sock".to_owned(), "os error"),
    ] {
        let built = RedisSandboxExecutionGuard::builder(&*url).build();
        let said = assert_says_nothing_twice(&built.expect_err(&url));
        assert!(said.contains(cause), "{cause} not in {said}");
    }
}
