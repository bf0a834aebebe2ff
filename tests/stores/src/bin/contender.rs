//! Another process that wants a slot as often as it can get it.
//!
//! ```text
//! contender URL PREFIX THREADS MILLISECONDS MICROSECONDS
//! ```
//!
//! Says `ready`, and begins when its input ends. For that many milliseconds that many threads enter, work
//! for so many microseconds, and close; then it says how often they entered.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::together;
use guard_core::{SandboxExecutionGuard, SandboxIsolationKey};
use guard_redis::RedisSandboxExecutionGuard;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [url, prefix, threads, millis, work] = &arguments[..] else {
        panic!("too few arguments: {arguments:?}")
    };
    let guard = RedisSandboxExecutionGuard::builder(&**url).key_prefix(prefix);
    let guard = guard.build().unwrap();
    let key = SandboxIsolationKey::global();
    let time = Duration::from_millis(millis.parse().unwrap());
    let work = Duration::from_micros(work.parse().unwrap());
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink()).unwrap();

    let entries = AtomicU64::new(0);
    let end = Instant::now() + time;
    together(threads.parse().unwrap(), |_| {
        while let Ok(lease) = guard.try_enter_until(&key, end) {
            entries.fetch_add(1, Ordering::Relaxed);
            if !work.is_zero() {
                thread::sleep(work);
            }
            lease.close();
            if Instant::now() >= end {
                break;
            }
        }
    });
    println!("{}", entries.into_inner());
}
