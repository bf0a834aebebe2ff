//! Ways to a real Redis server other than plain TCP: TLS and Unix sockets. Each test has a server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tls;
mod unix;

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use guard_redis::{IsolationScope, SandboxIsolationKey};

/// Short, for tests that wait for its end.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);
/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// Whatever an error and its causes say, to users and to developers.
fn everything_said(error: &dyn Error) -> String {
    let mut text = format!("{error}\n{error:?}\n{error:#?}\n");
    let mut cause = error.source();
    while let Some(error) = cause {
        writeln!(text, "{error}\n{error:?}\n{error:#?}").unwrap();
        cause = error.source();
    }
    text
}
