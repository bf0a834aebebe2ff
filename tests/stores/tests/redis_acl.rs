//! The suite on a real Redis server, as a user with no more rights than the README says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::acl;
use guard_store_tests::redis_server::RedisServer;
use redis_backend::Redis;

/// What the cases' key prefixes begin with, and those of the vectors.
const PREFIXES: [&str; 8] = [
    "conformance-",
    "agentscope:sandbox:lock:",
    "agentscope:guard:",
    "myapp:guard:",
    "prod:",
    "a}:",
    "{:",
    "{t}:",
];

fn main() -> ExitCode {
    let server = RedisServer::start();
    let url = acl::user(&server, &PREFIXES.map(acl::rule).concat(), server.url());
    guard_conformance::run(Redis::on("restricted Redis", server, url, |builder| {
        builder.fencing(true)
    }))
}
