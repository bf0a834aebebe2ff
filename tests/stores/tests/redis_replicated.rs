//! The suite on a real Redis server with two replicas, which acknowledge every lease.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::replicas;
use redis_backend::Redis;

fn main() -> ExitCode {
    let (master, replicas) = replicas::start(2);
    let url = master.url();
    let redis = Redis::on("replicated Redis", master, url, |builder| {
        builder.min_replicas(2)
    });
    let outcome = guard_conformance::run(redis);
    drop(replicas);
    outcome
}
