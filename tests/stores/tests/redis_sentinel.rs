//! The suite on a master that sentinels watch over.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::redis_topologies::Sentinels;
use redis_backend::Redis;

fn main() -> ExitCode {
    let servers = Sentinels::start();
    guard_conformance::run(Redis::over("Sentinel", servers, |builder| builder))
}
