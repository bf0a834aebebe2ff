//! The suite on a real Redis server, by TLS, with certificates on both sides.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use std::sync::Arc;

use guard_store_tests::redis_server::{RedisServer, Setup};
use redis_backend::Redis;

fn main() -> ExitCode {
    guard_conformance::run(Redis::by_tls("Redis by TLS", |certificates| {
        RedisServer::start_with(Setup {
            tls: Some(Arc::clone(certificates)),
            ..Setup::default()
        })
    }))
}
