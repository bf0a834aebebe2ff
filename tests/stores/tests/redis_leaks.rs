//! What a guard leaves behind after very many leases: nothing. These tests count what belongs to the whole
//! process, so one runs at a time, in a target of its own. `GUARD_LEAK_CYCLES` says how many leases there are.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::measure::alone;
use guard_conformance::{eventually, together};
use guard_core::GuardObserver;
use guard_redis::{
    IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
    SandboxIsolationKey,
};
use guard_store_tests::redis_server::RedisServer;

const THREADS: usize = 4;
/// The slots that all threads want, so that they wait for each other.
const SHARED: usize = 2;
/// What memory may grow by after the first tenth.
const GROWTH: usize = 2 << 20;

fn cycles() -> usize {
    let given = env::var("GUARD_LEAK_CYCLES").ok();
    let default = if cfg!(debug_assertions) {
        20_000
    } else {
        100_000
    };
    given.map_or(default, |cycles| cycles.parse().unwrap())
}

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

struct Quiet;

impl GuardObserver for Quiet {}

/// With everything that has a thread or a connection of its own.
fn builder(server: &RedisServer) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(server.url())
        .lease_ttl(Duration::from_secs(2))
        .auto_renew(true)
        .fencing(true)
        .observer(Arc::new(Quiet))
}

/// The names of the process's threads that belong to guards.
fn guard_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    let names = tasks.filter_map(name).map(|name| name.trim().to_owned());
    names.filter(|name| name.starts_with("guard-")).collect()
}

/// Open files, and threads, of the process; connections at the server.
fn counts(server: &RedisServer) -> [usize; 3] {
    let count = |directory| fs::read_dir(directory).unwrap().count();
    let clients = server.cli(&["CLIENT", "LIST"]).lines().count();
    [count("/proc/self/fd"), count("/proc/self/task"), clients]
}

fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Leases in all the ways in which they come and go.
fn use_leases(guard: &RedisSandboxExecutionGuard, cycles: usize) {
    together(THREADS, |thread| {
        for cycle in 0..cycles / THREADS {
            let lease = match cycle % 5 {
                // Many names, each used once: nothing is kept for a name.
                0 => guard
                    .try_enter(&key(&format!("own-{thread}-{cycle}")))
                    .unwrap(),
                1 => match guard.try_enter_now(&key("shared-0")).unwrap() {
                    Some(lease) => lease,
                    None => continue,
                },
                2 => match guard.try_enter_for(&key("shared-1"), Duration::from_micros(300)) {
                    Ok(lease) => lease,
                    Err(_) => continue,
                },
                _ => guard
                    .try_enter(&key(&format!("shared-{}", cycle % SHARED)))
                    .unwrap(),
            };
            if cycle % 7 == 0 {
                lease.on_lost(|| {}).unwrap();
            }
            if cycle % 11 == 0 {
                lease.renew().unwrap();
            }
            drop(lease);
        }
    });
}

#[test]
fn very_many_leases_leave_no_thread_connection_file_or_memory_behind() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server).build().unwrap();
    use_leases(&guard, cycles() / 10);
    // Callbacks and early looks are over.
    thread::sleep(Duration::from_millis(500));
    let (before, memory) = (counts(&server), resident());
    use_leases(&guard, cycles() - cycles() / 10);
    eventually("as many files, threads and connections as before", || {
        // A pool that was used by more threads at once may have grown to its size.
        let after = counts(&server);
        after[1] <= before[1] && after[0] <= before[0] + 8 && after[2] <= before[2] + 8
    });
    let grown = resident().saturating_sub(memory);
    println!("{before:?}, {:?}, grown by {grown} bytes", counts(&server));
    assert!(grown < GROWTH, "memory has grown by {grown} bytes");
    // With fencing on, a counter stays for each slot for its time; nothing else does.
    let left = server.cli(&["--scan", "--pattern", "agentscope:*"]);
    assert_eq!(left, "");
}

#[test]
fn connections_that_break_again_and_again_leave_nothing_behind() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server).build().unwrap();
    use_leases(&guard, 400);
    thread::sleep(Duration::from_millis(500));
    let (before, memory) = (counts(&server), resident());
    for _ in 0..100 {
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        use_leases(&guard, 100);
    }
    eventually("as many files, threads and connections as before", || {
        let after = counts(&server);
        after[1] <= before[1] && after[0] <= before[0] + 8 && after[2] <= before[2] + 8
    });
    let grown = resident().saturating_sub(memory);
    assert!(grown < GROWTH, "memory has grown by {grown} bytes");
}

#[test]
fn a_guard_has_four_threads_at_most_and_takes_them_along() {
    let _alone = alone();
    let server = RedisServer::start();
    assert_eq!(guard_threads(), Vec::<String>::new());
    let files = counts(&server)[0];
    for _ in 0..20 {
        let guard = builder(&server).build().unwrap();
        use_leases(&guard, 100);
        let lease = guard.try_enter(&key("a")).unwrap();
        lease.on_lost(|| {}).unwrap();
        assert!(
            guard
                .try_enter_for(&key("a"), Duration::from_millis(50))
                .is_err()
        );
        let threads = guard_threads();
        assert!(threads.len() <= 4, "{threads:?}");
        drop(lease);
        drop(guard);
        eventually("its threads end", || guard_threads().is_empty());
    }
    eventually("its connections are closed", || counts(&server)[0] <= files);
}

/// The release that close could not do is under way for longer than the grace.
#[test]
fn no_thread_outlives_a_guard_whose_server_has_stopped() {
    const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server)
        .lease_ttl(Duration::from_secs(60))
        .operation_timeout(OPERATION_TIMEOUT)
        .shutdown_grace(Duration::from_millis(200))
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let short = Duration::from_millis(50);
    assert!(guard.try_enter_for(&key("a"), short).is_err());
    server.stop_process();
    drop(lease);
    // The keeper's own attempt begins.
    thread::sleep(Duration::from_millis(500));
    drop(guard);
    let dropped = Instant::now();
    eventually("its threads end", || guard_threads().is_empty());
    assert!(
        dropped.elapsed() < OPERATION_TIMEOUT / 2,
        "{:?}",
        dropped.elapsed()
    );
}
