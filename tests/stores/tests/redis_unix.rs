//! The suite on a real Redis server, by a Unix socket whose path has a space in it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_store_tests::redis_server::{RedisServer, Setup};
use redis_backend::Redis;

fn main() -> ExitCode {
    let directory = tempfile::Builder::new()
        .prefix("a socket")
        .tempdir()
        .unwrap();
    let socket = directory.path().join("redis.sock").display().to_string();
    let server = RedisServer::start_with(Setup {
        arguments: vec!["--unixsocket".to_owned(), socket.clone()],
        ..Setup::default()
    });
    let url = format!("unix://{}", socket.replace(' ', "%20"));
    guard_conformance::run(Redis::on("Redis by a socket", server, url, |builder| {
        builder
    }))
}
