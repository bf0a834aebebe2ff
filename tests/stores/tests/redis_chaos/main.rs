//! Random faults over two processes with four threads each, and the proof from their histories that the
//! promises were kept. `GUARD_CHAOS_SEED` repeats a run's choices, though not its timing, and
//! `GUARD_CHAOS_SECONDS` says how long one takes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clients;
mod faults;
// The example that users copy from.
#[path = "../../../../examples/fenced_storage/storage.rs"]
#[allow(dead_code, unreachable_pub)]
mod storage;
mod storage_server;

use std::env;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_core::DEFAULT_KEY_PREFIX;
use guard_store_tests::chaos::{OPERATION_TIMEOUT, SLOTS, TTL};
use guard_store_tests::history::{Loss, nanos};
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;

use crate::clients::Clients;
use crate::faults::{Chaos, Memory};
use crate::storage_server::StorageServer;

const DEFAULT_SECONDS: u64 = 15;
/// What a noisy machine may add to a bound.
const SLACK: Duration = Duration::from_millis(500);

fn run(memory: Memory) {
    // One at a time: a machine that has no time for anything proves little.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = Random::seed("GUARD_CHAOS_SEED");
    let seconds = env::var("GUARD_CHAOS_SECONDS").ok();
    let seconds = seconds.map_or(DEFAULT_SECONDS, |seconds| seconds.parse().unwrap());
    let length = Duration::from_secs(seconds);

    let storage = StorageServer::start();
    let server = RedisServer::start();
    let proxies = [(); 2].map(|()| Proxy::to(server.port()));
    let clients = Clients::start(&proxies, storage.port(), seed, length);
    let mut chaos = Chaos::new(server, proxies, Random::new(seed), memory);
    let end = Instant::now() + length;
    while Instant::now() < end {
        chaos.strike();
    }
    let losses = chaos.losses();
    let history = clients.finish();

    // Everybody has closed or given up by now.
    let ended = Instant::now();
    let server = chaos.into_server();
    for slot in SLOTS {
        let slot = format!("{DEFAULT_KEY_PREFIX}agent:{slot}");
        while server.cli(&["EXISTS", &slot]) != "0" {
            let held = ended.elapsed();
            let bound = TTL + Duration::from_secs(1) + SLACK;
            assert!(held < bound, "{slot} is held {held:?} after the end");
            thread::sleep(Duration::from_millis(5));
        }
    }
    println!(
        "{history}, {} losses of memory, {} pairs at once, {} stale writes refused of {}",
        losses.len(),
        history.overlaps(),
        storage.refused(),
        storage.writes(),
    );
    let losses: Vec<_> = losses
        .iter()
        .map(|loss| Loss {
            from: loss.0,
            to: loss.1,
            told_within: nanos(TTL / 3 + OPERATION_TIMEOUT + SLACK),
        })
        .collect();
    assert_eq!(history.violations(&losses), []);
    storage.assert_in_order();
    assert!(
        history.leases() as u64 > 3 * seconds,
        "hardly anybody entered"
    );
}

#[test]
fn no_two_leases_are_valid_at_once_whatever_fails_but_the_stores_memory() {
    run(Memory::Kept);
}

#[test]
fn a_store_that_loses_its_memory_costs_only_leases_granted_before_and_those_are_told() {
    run(Memory::Lost);
}
