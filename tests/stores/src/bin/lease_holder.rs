//! The other process: enters a slot and does as it is told.
//!
//! ```text
//! lease_holder ADDRESS PREFIX hold  SCOPE VALUE TTL_MS              holds; closes when it reads a line
//! lease_holder ADDRESS PREFIX count SCOPE VALUE TTL_MS FILE TIMES   counts up the number in a file
//! ```
//!
//! The variable `GUARD_CERTIFICATES` names the directory of certificates for a `rediss://` address.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guard_core::{GuardConfig, IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_mysql::MySqlSandboxExecutionGuard;
use guard_postgres::PostgresSandboxExecutionGuard;
use guard_store_tests::redis_topologies::builder;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [address, prefix, verb, scope, value, ttl, rest @ ..] = &arguments[..] else {
        panic!("too few arguments: {arguments:?}")
    };
    let config = GuardConfig {
        key_prefix: prefix.clone(),
        lease_ttl: Duration::from_millis(ttl.parse().unwrap()),
        retry_interval: Duration::from_millis(5),
        owner: Some(format!("lease_holder {}", process::id())),
        ..GuardConfig::default()
    };
    let guard = connect(address, config);
    let key = SandboxIsolationKey::new(named(scope), &**value).unwrap();
    match (&**verb, rest) {
        ("hold", []) => hold(&guard, &key),
        ("count", [file, times]) => count(&guard, &key, file, times.parse().unwrap()),
        _ => panic!("unknown: {arguments:?}"),
    }
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

fn named(scope: &str) -> IsolationScope {
    use IsolationScope::{Agent, Global, Session, User};
    let scopes = [Session, User, Agent, Global];
    let named = scopes.into_iter().find(|known| known.as_str() == scope);
    named.unwrap_or_else(|| panic!("no scope: {scope:?}"))
}

fn hold(guard: &Arc<dyn SandboxExecutionGuard>, key: &SandboxIsolationKey) {
    let lease = guard.try_enter(key).unwrap();
    println!("held");
    let mut line = String::new();
    if io::stdin().read_line(&mut line).unwrap() == 0 {
        // Whoever started this is gone: it ends as a crashed process does, without closing.
        process::exit(1);
    }
    println!("{:?}", lease.close());
}

fn count(
    guard: &Arc<dyn SandboxExecutionGuard>,
    key: &SandboxIsolationKey,
    file: &str,
    times: u32,
) {
    for _ in 0..times {
        let _lease = guard.try_enter(key).unwrap();
        let number: u64 = fs::read_to_string(file).unwrap().parse().unwrap();
        thread::yield_now();
        fs::write(file, (number + 1).to_string()).unwrap();
    }
    println!("counted");
}
