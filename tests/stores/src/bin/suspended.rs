//! A holder that is stopped and goes on: says what it finds when it does.
//!
//! ```text
//! suspended URL PREFIX VALUE TTL_MS RENEW
//! ```
//!
//! Enters with fencing and says `held`, its token and its number. When it finds that it was stopped it says
//! `is_held`, what closing came to, and after how many milliseconds it was told of the loss. It ends when its
//! input does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_redis::RedisSandboxExecutionGuard;

/// A step that takes longer means that the process was stopped.
const STOPPED: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(1);
/// A process that was never stopped ends after this.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [url, prefix, value, ttl, renew] = &arguments[..] else {
        panic!("too few arguments: {arguments:?}")
    };
    let guard = RedisSandboxExecutionGuard::builder(&**url)
        .key_prefix(prefix)
        .lease_ttl(Duration::from_millis(ttl.parse().unwrap()))
        .auto_renew(renew.parse().unwrap())
        .fencing(true)
        .build()
        .unwrap();
    let key = SandboxIsolationKey::new(IsolationScope::Agent, &**value).unwrap();
    let lease = guard.try_enter(&key).unwrap();
    let (tell, told) = mpsc::channel();
    lease
        .on_lost(move || tell.send(Instant::now()).unwrap())
        .unwrap();
    // It may be stopped as soon as it has said so.
    let start = Instant::now();
    let mut before = start;
    println!("held {}", lease.fencing_token().unwrap());
    while before.elapsed() <= STOPPED {
        if start.elapsed() > PATIENCE {
            process::exit(1);
        }
        before = Instant::now();
        thread::sleep(STEP);
    }
    let went_on = Instant::now();
    let is_held = lease.is_held();
    let told = told.recv_timeout(PATIENCE).unwrap();
    let late = told.saturating_duration_since(went_on).as_millis();
    println!("{is_held} {late} {:?}", lease.close());
}
