//! Many waiters at once: how soon all of them are in, and what each of them costs.

use std::fs;
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::measure::{alone, forgiving_one_miss};
use guard_conformance::{PATIENCE, eventually};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease};
use guard_store_tests::redis_server::RedisServer;

use crate::{guard, key, raw};

const WAITERS: usize = 1_000;
/// The promise: all are in within this time.
const BOUND: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
/// The promise: so many bytes a waiter, without its stack.
const BYTES: u64 = 4 << 10;
/// Of no other mapping of this process, so that stacks can be told from what waiting allocates.
const STACK: usize = 236 << 10;

/// Threads that wait for one slot each.
struct Crowd {
    go: Arc<Barrier>,
    entered: mpsc::Receiver<(Instant, SandboxLease)>,
    slots: Vec<String>,
}

impl Crowd {
    /// Starts the threads; they wait only after [`go`](Self::go).
    fn new(guard: &RedisSandboxExecutionGuard) -> Self {
        let go = Arc::new(Barrier::new(WAITERS + 1));
        let (tell, entered) = mpsc::channel();
        let keys: Vec<_> = (0..WAITERS)
            .map(|number| key(&number.to_string()))
            .collect();
        let slots = keys.iter().map(|key| guard.slot(key).to_string()).collect();
        for key in keys {
            let (guard, go, tell) = (guard.clone(), Arc::clone(&go), tell.clone());
            let wait = move || {
                go.wait();
                let lease = guard.try_enter(&key).unwrap();
                tell.send((Instant::now(), lease)).unwrap();
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn(wait)
                .unwrap();
        }
        Self { go, entered, slots }
    }

    /// A foreign holder takes all slots.
    fn hold(&self, server: &RedisServer) {
        let mut pipe = redis::pipe();
        for slot in &self.slots {
            pipe.set(slot, "foreign").ignore();
        }
        let () = pipe.query(&mut raw(server)).unwrap();
    }

    fn go(&self, server: &RedisServer) {
        self.go.wait();
        // Every slot's key is in the table of what is watched.
        eventually("all wait and watch", || {
            let info = server.cli(&["INFO", "stats"]);
            info.lines()
                .any(|line| line.trim_end() == format!("tracking_total_keys:{WAITERS}"))
        });
        assert!(self.entered.try_recv().is_err(), "all slots are held");
    }

    /// How long after `freed` the last one was in.
    fn last(&self, freed: Instant) -> Duration {
        let entries = (0..WAITERS).map(|_| self.entered.recv_timeout(PATIENCE).unwrap());
        let moments = entries.map(|(moment, lease)| {
            drop(lease);
            moment
        });
        moments.max().unwrap().saturating_duration_since(freed)
    }
}

fn all_are_woken(free: impl Fn(&mut redis::Connection, &[String])) {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = guard(&server);
    forgiving_one_miss(|| {
        let crowd = Crowd::new(&guard);
        crowd.hold(&server);
        crowd.go(&server);
        let mut foreign = raw(&server);
        let freed = Instant::now();
        free(&mut foreign, &crowd.slots);
        let last = crowd.last(freed);
        println!("the last of {WAITERS} was in after {last:?}");
        if last <= BOUND {
            Ok(())
        } else {
            Err(format!("{last:?}"))
        }
    });
}

#[test]
fn a_thousand_waiters_are_in_within_a_second_of_a_bulk_delete() {
    all_are_woken(|foreign, slots| {
        let deleted: usize = redis::Cmd::del(slots).query(foreign).unwrap();
        assert_eq!(deleted, WAITERS);
    });
}

#[test]
fn a_thousand_waiters_are_in_within_a_second_of_a_flush() {
    all_are_woken(|foreign, _| {
        let _: () = redis::cmd("FLUSHALL").query(foreign).unwrap();
    });
}

/// Memory in use without the waiters' stacks.
fn allocated() -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut total, mut is_stack) = (0, false);
    for line in maps.lines() {
        let kibibytes = |line: &str| {
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        if line.starts_with("Size:") {
            is_stack = kibibytes(line) == (STACK >> 10) as u64;
        } else if line.starts_with("Anonymous:") && !is_stack {
            total += kibibytes(line) << 10;
        }
    }
    total
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn connections(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).lines().count() - 1
}

#[test]
fn a_waiter_costs_less_than_4_kib_and_a_guard_one_thread_and_two_connections() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = guard(&server);
    let crowd = Crowd::new(&guard);
    crowd.hold(&server);
    eventually("all threads are there", || threads() > WAITERS);
    let (bytes_before, threads_before) = (allocated(), threads());
    crowd.go(&server);
    let each = allocated().saturating_sub(bytes_before) / WAITERS as u64;
    println!("{each} bytes a waiter");
    assert!(each < BYTES, "{each} bytes a waiter");
    assert_eq!(threads(), threads_before + 1, "one thread for all of them");
    let pool = guard_redis::DEFAULT_POOL_SIZE as usize;
    let open = connections(&server);
    assert!(open <= pool + 2, "{open} connections");
    let () = redis::cmd("FLUSHALL").query(&mut raw(&server)).unwrap();
    crowd.last(Instant::now());
}
