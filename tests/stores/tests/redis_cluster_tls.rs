//! The suite on a cluster, all by TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::redis_topologies::Cluster;
use redis_backend::Redis;

fn main() -> ExitCode {
    guard_conformance::run(Redis::by_tls("Cluster by TLS", |certificates| {
        Cluster::start_with(Some(certificates))
    }))
}
