//! From the holder's close to the waiter's return, and what an entry costs, beside a `SELECT 1`, on a real
//! database server.
//!
//! Two guards of this process play two processes: they share nothing but the server, and one clock reads
//! both ends. Everything that is measured has been idle for the same time before: its connection and the
//! processor. The ratios that are promised are those of an optimised build on a machine with a processor to
//! spare: `cargo test --release -p guard-store-tests --test postgres_timings -- --nocapture`, and
//! `mariadb_timings`. Other builds are held to wide ones: a lost wake-up costs a hundred times as much and shows.

#![allow(unreachable_pub, reason = "each target is a crate of its own")]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_conformance::{PATIENCE, eventually};
use guard_core::{IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::Database;

const ROUNDS: usize = 120;
/// The first rounds open connections, and are not counted.
const WARM_UP: usize = 10;
const IDLE: Duration = Duration::from_millis(15);

/// The bound that is promised, or in a build without optimisation the wide one.
const fn bound(promised: f64, wide: f64) -> f64 {
    if cfg!(debug_assertions) {
        wide
    } else {
        promised
    }
}

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap()
}

/// Times `SELECT 1` on a connection of its own.
fn select_one(mut ask: impl FnMut(&str) -> u64) -> impl FnMut() -> Duration {
    move || {
        thread::sleep(IDLE);
        let before = Instant::now();
        ask("SELECT 1");
        before.elapsed()
    }
}

fn guard<D: Database>(server: &Daemon<D>) -> D::Guard {
    server.builder().build().unwrap()
}

fn judge(what: &str, times: &Times, ones: &Times, trips: f64) -> Result<(), String> {
    let found = times.median().as_secs_f64() / ones.median().as_secs_f64();
    let text = format!("{found:.2} round trips; {what}: {times}; SELECT 1: {ones}");
    println!("{text}");
    if found <= trips { Ok(()) } else { Err(text) }
}

/// `connect` opens a connection that answers numbers, on the calling thread.
pub fn a_waiter_is_in_within_three_round_trips_of_another_guards_close<D, A>(
    connect: fn(&Daemon<D>) -> A,
) where
    D: Database,
    A: FnMut(&str) -> u64,
{
    let _alone = alone();
    let server = Daemon::<D>::start();
    let (holding, waiting) = (guard(&server), guard(&server));
    let (go, told) = mpsc::channel::<()>();
    let (tell, entered) = mpsc::channel();
    let waiter = thread::spawn(move || {
        for () in told {
            let lease = waiting.try_enter_for(&key(), PATIENCE).unwrap();
            let now = Instant::now();
            drop(lease);
            tell.send(now).unwrap();
        }
    });
    let mut ask = connect(&server);
    let count = format!("SELECT COUNT(*) FROM {} WHERE waits", D::SESSIONS);
    let mut is_blocked = || ask(&count) == 1;
    let mut select_one = select_one(connect(&server));
    forgiving_one_miss(|| {
        let (mut ones, mut wakes) = (Times::default(), Times::default());
        for round in 0..WARM_UP + ROUNDS {
            let lease = holding.try_enter_for(&key(), PATIENCE).unwrap();
            go.send(()).unwrap();
            eventually("it waits at the server", &mut is_blocked);
            let first = (round % 2 == 0).then(&mut select_one);
            thread::sleep(IDLE);
            let before = Instant::now();
            drop(lease);
            let wake = entered.recv_timeout(PATIENCE).unwrap();
            let one = first.unwrap_or_else(&mut select_one);
            if round >= WARM_UP {
                ones.add(one);
                wakes.add(wake.saturating_duration_since(before));
            }
        }
        judge("wake-up", &wakes, &ones, bound(3.0, 15.0))
    });
    drop(go);
    waiter.join().unwrap();
}

pub fn an_entry_and_its_close_take_few_round_trips<D, A>(connect: fn(&Daemon<D>) -> A)
where
    D: Database,
    A: FnMut(&str) -> u64,
{
    let _alone = alone();
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let mut select_one = select_one(connect(&server));
    forgiving_one_miss(|| {
        let (mut ones, mut sections) = (Times::default(), Times::default());
        for round in 0..WARM_UP + ROUNDS {
            thread::sleep(IDLE);
            let before = Instant::now();
            guard.try_enter_now(&key()).unwrap().unwrap().close();
            let section = before.elapsed();
            let one = select_one();
            if round >= WARM_UP {
                sections.add(section);
                ones.add(one);
            }
        }
        judge("entry and close", &sections, &ones, bound(6.0, 30.0))
    });
}
