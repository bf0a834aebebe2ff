//! The suite on a real Redis server, without wake-ups.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_redis::Wakeups;
use redis_backend::Redis;

fn main() -> ExitCode {
    guard_conformance::run(Redis::start("polled Redis", |builder| {
        builder.wakeups(Wakeups::Polling)
    }))
}
