//! The other process of the suite, on each of our stores. The variable `GUARD_CERTIFICATES` names the directory of
//! certificates for a `rediss://` address.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use guard_core::{GuardConfig, SandboxExecutionGuard};
use guard_mysql::MySqlSandboxExecutionGuard;
use guard_postgres::PostgresSandboxExecutionGuard;
use guard_store_tests::redis_topologies::builder;

fn main() {
    guard_conformance::lease_holder(connect);
}

/// A store that processes share joins with a line here.
fn connect(address: &str, config: GuardConfig) -> Arc<dyn SandboxExecutionGuard> {
    let words = ["redis://", "rediss://", "unix://"];
    if words.iter().any(|word| address.contains(word)) {
        let mut guard = builder(address).settings(config);
        if let Some(directory) = env::var_os("GUARD_CERTIFICATES") {
            let pem = |name| fs::read(Path::new(&directory).join(name)).unwrap();
            guard = guard
                .tls_ca_certificate(pem("ca.pem"))
                .tls_client_certificate(pem("client.pem"), pem("client.key"));
        }
        return Arc::new(guard.build().unwrap());
    }
    if address.starts_with("mysql://") {
        let guard = MySqlSandboxExecutionGuard::builder(address).settings(config);
        return Arc::new(guard.build().unwrap());
    }
    if address.starts_with("postgres://") {
        let guard = PostgresSandboxExecutionGuard::builder(address).settings(config);
        return Arc::new(guard.build().unwrap());
    }
    panic!("no store has such an address")
}
