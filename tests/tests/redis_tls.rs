//! The suite on a real Redis server, by TLS, with certificates on both sides.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod redis_backend;

use std::process::ExitCode;

use guard_conformance::certificates::Certificates;
use guard_conformance::daemon::free_port;
use guard_conformance::redis_server::{RedisServer, Setup};
use redis_backend::Redis;

fn main() -> ExitCode {
    let certificates = Certificates::new(&["localhost"]);
    let port = free_port();
    let server = RedisServer::start_with(Setup {
        arguments: certificates.server_arguments(port),
        ..Setup::default()
    });
    let url = format!("rediss://localhost:{port}/0");
    let directory = certificates.directory().to_owned();
    let pem = move |name| std::fs::read(directory.join(name)).unwrap();
    let redis = Redis::on("Redis by TLS", server, url, move |builder| {
        builder
            .tls_ca_certificate(pem("ca.pem"))
            .tls_client_certificate(pem("client.pem"), pem("client.key"))
    });
    guard_conformance::run(redis.with_variable("GUARD_CERTIFICATES", certificates.directory()))
}
