//! The other process: enters a slot and does as it is told.

use std::env;
use std::fs;
use std::io;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guard_core::{GuardConfig, IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};

/// The `main` of a program that is the suite's [other process](crate::Backend::another_process): `connect` builds a guard
/// for the address that is the program's first argument.
///
/// ```text
/// lease_holder ADDRESS PREFIX hold  SCOPE VALUE TTL_MS              holds; closes when it reads a line
/// lease_holder ADDRESS PREFIX count SCOPE VALUE TTL_MS FILE TIMES   counts up the number in a file
/// ```
///
/// # Panics
///
/// When its arguments are others, or its guard fails: that is the end of the process, which the case notices.
pub fn lease_holder(connect: impl FnOnce(&str, GuardConfig) -> Arc<dyn SandboxExecutionGuard>) {
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
