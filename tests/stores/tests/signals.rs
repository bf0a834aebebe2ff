//! Signals that arrive while a thread waits for its store end no operation. A process of its own: the signals are for
//! all of it, and the system gives them to its first thread, which does the work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_redis::{
    IsolationScope, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::redis_server::RedisServer;
use rustix::process::{Signal, getpid, kill_process};

/// Longer than the pause between two signals, so that most reads are interrupted.
const DELAY: Duration = Duration::from_millis(5);
const ENTRIES: usize = 200;

fn connections_so_far(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "stats"]);
    let count = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    count.unwrap().trim().parse().unwrap()
}

fn main() {
    let signals = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGALRM, Arc::clone(&seen)).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let sender = {
        let (over, signals) = (Arc::clone(&over), Arc::clone(&signals));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                kill_process(getpid(), Signal::ALARM).unwrap();
                signals.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    proxy.delay(DELAY);
    let guard = RedisSandboxExecutionGuard::builder(proxy.url())
        .build()
        .unwrap();
    let key = SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap();
    let connections = connections_so_far(&server);
    let start = Instant::now();
    for entry in 0..ENTRIES {
        let lease = guard
            .try_enter(&key)
            .unwrap_or_else(|error| panic!("entry {entry}: {error:?}"));
        lease.close();
    }
    over.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let signals = signals.load(Ordering::Relaxed);
    assert!(
        signals > ENTRIES,
        "{signals} signals in {:?}",
        start.elapsed()
    );
    let opened = connections_so_far(&server) - connections;
    // One of them is `redis-cli`.
    assert!(opened <= 2, "{opened} connections");
    assert!(seen.load(Ordering::Relaxed));
    println!("test signals_end_no_operation ... ok ({signals} signals)");
}
