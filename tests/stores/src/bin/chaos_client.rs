//! A process that uses leases as services do, and writes down what it sees of them.
//!
//! ```text
//! chaos_client NAME URL PREFIX STORAGE_PORT SEED MILLISECONDS THREADS HISTORY
//! ```
//!
//! For that many milliseconds that many threads enter random slots, write to the storage with their fencing
//! tokens while they hold them, and close. The history goes to a file, in the form of
//! [`guard_store_tests::history`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::together;
use guard_core::{
    GuardError, IsolationScope, LeaseTtl, SandboxExecutionGuard, SandboxIsolationKey, SandboxLease,
};
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::chaos::{OPERATION_TIMEOUT, OUTAGE_TOLERANCE, SLOTS, TTL};
use guard_store_tests::history::{nanos, now};
use guard_store_tests::random::Random;

/// How often a holder looks at its lease.
const STEP: Duration = Duration::from_millis(10);
/// What a noisy machine may add to the time of an entry.
const SLACK: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [name, url, prefix, storage, seed, millis, threads, file] = &arguments[..] else {
        panic!("too few arguments: {arguments:?}")
    };
    let guard = RedisSandboxExecutionGuard::builder(&**url)
        .key_prefix(prefix)
        .lease_ttl(TTL)
        .auto_renew(true)
        .fencing(true)
        .operation_timeout(OPERATION_TIMEOUT)
        .outage_tolerance(OUTAGE_TOLERANCE)
        .retry_interval(Duration::from_millis(50))
        .owner(name)
        .build()
        .unwrap();
    let end = Instant::now() + Duration::from_millis(millis.parse().unwrap());
    let (seed, storage): (u64, u16) = (seed.parse().unwrap(), storage.parse().unwrap());
    println!("ready");
    let histories = together(threads.parse().unwrap(), |number| {
        let mut worker = Worker {
            name: format!("{name}.{number}"),
            guard: &guard,
            random: Random::new(seed.wrapping_add(number as u64)),
            storage: BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, storage)).unwrap()),
            history: String::new(),
        };
        for entry in 0.. {
            if Instant::now() >= end {
                break;
            }
            worker.enter(entry);
        }
        worker.history
    });
    drop(guard);
    fs::write(file, histories.concat()).unwrap();
}

struct Worker<'a> {
    name: String,
    guard: &'a RedisSandboxExecutionGuard,
    random: Random,
    storage: BufReader<TcpStream>,
    history: String,
}

impl Worker<'_> {
    fn enter(&mut self, entry: u32) {
        let slot = *self.random.one_of(&SLOTS);
        let key = SandboxIsolationKey::new(IsolationScope::Agent, slot).unwrap();
        let patience = match self.random.below(4) {
            0 => Duration::ZERO,
            _ => self.random.millis(0, 2_000),
        };
        let start = Instant::now();
        let outcome = self.guard.try_enter_for(&key, patience);
        let took = start.elapsed();
        assert!(
            took < patience + OPERATION_TIMEOUT + SLACK,
            "an entry took {took:?} with a patience of {patience:?}: {outcome:?}"
        );
        let lease = format!("{}.{entry} {slot}", self.name);
        match outcome {
            Ok(held) => self.hold(&held, &lease, slot),
            Err(GuardError::TimedOut { .. }) => {}
            Err(GuardError::Store {
                transient: true, ..
            }) => self.note(now(), &lease, "failed"),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn hold(&mut self, held: &SandboxLease, lease: &str, slot: &str) {
        let (time, until) = deadline(held);
        let validity = nanos(LeaseTtl::new(TTL, Duration::MAX).unwrap().validity());
        let fencing = held.fencing_token().unwrap().get();
        let sent = until.saturating_sub(validity);
        self.note(time, lease, &format!("entered {sent} {until} {fencing}"));
        // Most sections are short; some need renewal.
        let section = match self.random.below(24) {
            0 => self.random.millis(500, 5_000),
            _ => self.random.millis(0, 60),
        };
        let end = Instant::now() + section;
        while Instant::now() < end {
            self.write(slot, fencing);
            thread::sleep(STEP);
            let (time, until) = deadline(held);
            if !held.is_held() {
                self.note(now(), lease, "lost");
                // A holder that does not look goes on writing; storage refuses it where it matters.
                self.write(slot, fencing);
                break;
            }
            self.note(time, lease, &format!("held {until}"));
        }
        self.note(now(), lease, "closing");
        held.close();
    }

    fn write(&mut self, slot: &str, fencing: u64) {
        self.storage
            .get_mut()
            .write_all(format!("{slot} {fencing}\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        self.storage.read_line(&mut answer).unwrap();
    }

    fn note(&mut self, time: u64, lease: &str, event: &str) {
        self.history.push_str(&format!("{time} {lease} {event}\n"));
    }
}

/// The time, and until when the lease may be relied on as seen then.
fn deadline(lease: &SandboxLease) -> (u64, u64) {
    let time = now();
    (time, time + nanos(lease.remaining()))
}
