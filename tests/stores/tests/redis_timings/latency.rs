//! From the holder's close to the waiter's return, beside a PING.
//!
//! Two guards of this process play two processes: they share nothing but the server, and one clock reads
//! both ends. That real processes wake each other is shown in `redis_wakeups`. Everything that is measured
//! has been idle for the same time before: its connection and the processor.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_conformance::{PATIENCE, Waiting};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{bound, enter, guard, key, raw};

const ROUNDS: usize = 120;
/// The first rounds open connections, and are not counted.
const WARM_UP: usize = 10;
const IDLE: Duration = Duration::from_millis(15);
/// The promise: this many round trips. Polling would take two thousand.
const TRIPS: f64 = bound(2.5, 12.0);

/// A thread that enters the slot whenever it is told, tells when it was in, and closes.
struct Waiter {
    go: Option<Sender<()>>,
    entered: Receiver<Instant>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    fn new(guard: RedisSandboxExecutionGuard) -> Self {
        let (go, told) = mpsc::channel();
        let (tell, entered) = mpsc::channel();
        let thread = thread::spawn(move || {
            for () in told {
                let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
                let now = Instant::now();
                drop(lease);
                tell.send(now).unwrap();
            }
        });
        Self {
            go: Some(go),
            entered,
            thread: Some(thread),
        }
    }

    /// Lets the thread wait for the slot.
    fn start(&self) {
        self.go.as_ref().unwrap().send(()).unwrap();
        // It looks, watches and looks again within this time, and then sleeps.
        thread::sleep(2 * IDLE);
    }

    fn entered(&self) -> Instant {
        self.entered.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.go = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Measures rounds in which `hold` takes the slot and answers what frees it.
fn measure<F: FnOnce()>(
    server: &RedisServer,
    waiting: &RedisSandboxExecutionGuard,
    mut hold: impl FnMut() -> F,
) -> Result<(), String> {
    let waiter = Waiter::new(waiting.clone());
    let mut connection = raw(server);
    let mut ping = || {
        thread::sleep(IDLE);
        let before = Instant::now();
        let _: String = redis::cmd("PING").query(&mut connection).unwrap();
        before.elapsed()
    };
    let (mut pings, mut wakes) = (Times::default(), Times::default());
    for round in 0..WARM_UP + ROUNDS {
        let free = hold();
        waiter.start();
        let first = (round % 2 == 0).then(&mut ping);
        thread::sleep(IDLE);
        let before = Instant::now();
        free();
        let wake = waiter.entered().saturating_duration_since(before);
        let ping = first.unwrap_or_else(&mut ping);
        if round >= WARM_UP {
            pings.add(ping);
            wakes.add(wake);
        }
    }
    let trips = wakes.median().as_secs_f64() / pings.median().as_secs_f64();
    let found = format!("{trips:.2} round trips; wake-up: {wakes}; PING: {pings}");
    println!("{found}");
    if trips <= TRIPS { Ok(()) } else { Err(found) }
}

#[test]
fn a_waiter_is_in_within_two_and_a_half_round_trips_of_another_guards_close() {
    let _alone = alone();
    let server = RedisServer::start();
    let (holding, waiting) = (guard(&server), guard(&server));
    forgiving_one_miss(|| {
        measure(&server, &waiting, || {
            let lease = enter(&holding, &key("a"));
            move || drop(lease)
        })
    });
}

#[test]
fn a_waiter_is_in_within_two_and_a_half_round_trips_of_a_foreign_delete() {
    let _alone = alone();
    let server = RedisServer::start();
    let waiting = guard(&server);
    let slot = waiting.slot(&key("a"));
    let foreign = std::cell::RefCell::new(raw(&server));
    forgiving_one_miss(|| {
        measure(&server, &waiting, || {
            let connection = &mut *foreign.borrow_mut();
            let _: () = redis::Cmd::set(slot.as_str(), "foreign")
                .query(connection)
                .unwrap();
            || {
                let deleted: u32 = redis::Cmd::del(slot.as_str())
                    .query(&mut *foreign.borrow_mut())
                    .unwrap();
                assert_eq!(deleted, 1);
            }
        })
    });
}

#[test]
fn fifty_other_waits_of_the_same_guard_do_not_delay_a_wake_up() {
    let _alone = alone();
    let server = RedisServer::start();
    let (holding, waiting) = (guard(&server), guard(&server));
    let others: Vec<_> = (0..50)
        .map(|number| key(&format!("other-{number}")))
        .collect();
    let leases: Vec<_> = others.iter().map(|other| enter(&holding, other)).collect();
    let waits: Vec<_> = others
        .iter()
        .map(|other| {
            let (waiting, other) = (waiting.clone(), other.clone());
            Waiting::start(move || waiting.try_enter(&other).map(drop))
        })
        .collect();
    forgiving_one_miss(|| {
        measure(&server, &waiting, || {
            let lease = enter(&holding, &key("a"));
            move || drop(lease)
        })
    });
    drop(leases);
    for wait in waits {
        wait.result().unwrap();
    }
}
