//! The suite on a master that sentinels watch over, all by TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::redis_topologies::Sentinels;
use redis_backend::Redis;

fn main() -> ExitCode {
    guard_conformance::run(Redis::by_tls("Sentinel by TLS", |certificates| {
        Sentinels::start_with(Some(certificates))
    }))
}
