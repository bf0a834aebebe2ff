//! The suite on a cluster, with fencing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::redis_topologies::Cluster;
use redis_backend::Redis;

fn main() -> ExitCode {
    let servers = Cluster::start();
    guard_conformance::run(Redis::over("Cluster", servers, |builder| {
        builder.fencing(true)
    }))
}
