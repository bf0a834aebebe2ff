//! The suite on a real Redis server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use redis_backend::Redis;

fn main() -> ExitCode {
    guard_conformance::run(Redis::start("Redis", |builder| builder))
}
