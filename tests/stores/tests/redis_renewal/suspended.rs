//! A holder whose process is stopped beyond its TTL and goes on.

// The example that users copy from.
#[path = "../../../../examples/fenced_storage/storage.rs"]
#[allow(dead_code, unreachable_pub)]
mod storage;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use guard_conformance::measure::alone;
use guard_conformance::{PATIENCE, unique_prefix};
use guard_core::FencingToken;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::key;
use storage::FencedStorage;

const TTL: Duration = Duration::from_secs(1);
/// How soon after going on the loss is told, and how often a noisy machine may be later.
const TOLD_WITHIN: u32 = 100;
const TRIES: u32 = 3;

#[test]
fn a_holder_that_was_stopped_beyond_its_ttl_finds_its_lease_lost_and_harms_nobody() {
    let _alone = alone();
    let server = RedisServer::start();
    for renew in [false, true] {
        let late: Vec<u32> = (0..TRIES).map(|_| stop_and_go_on(&server, renew)).collect();
        println!("renew {renew}: told after {late:?} ms");
        assert!(late.iter().any(|late| *late <= TOLD_WITHIN), "{late:?}");
    }
}

/// Answers after how many milliseconds the loss was told.
fn stop_and_go_on(server: &RedisServer, renew: bool) -> u32 {
    let prefix = unique_prefix();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .key_prefix(&*prefix)
        .fencing(true)
        .build()
        .unwrap();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_suspended"))
        .args([
            &server.url(),
            &prefix,
            "a",
            &TTL.as_millis().to_string(),
            &renew.to_string(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let held = line();
    let stale = held.strip_prefix("held ").unwrap().parse().unwrap();
    let storage = FencedStorage::default();
    storage
        .write("a", FencingToken::new(stale), "by the first")
        .unwrap();

    let pid = Pid::from_child(&holder);
    kill_process(pid, Signal::STOP).unwrap();
    let next = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    let newer = next.fencing_token().unwrap();
    storage.write("a", newer, "by the second").unwrap();
    // It counts only how long it was stopped.
    thread::sleep(2 * TTL);
    kill_process(pid, Signal::CONT).unwrap();
    let found = line();
    let words: Vec<_> = found.split(' ').collect();
    let [is_held, late, outcome] = &words[..] else {
        panic!("{found}")
    };
    assert_eq!((*is_held, *outcome), ("false", "AlreadyGone"));
    assert!(holder.wait().unwrap().success());
    assert!(
        storage
            .write("a", FencingToken::new(stale), "by the first again")
            .is_err()
    );
    assert_eq!(storage.read("a").as_deref(), Some("by the second"));
    // Its close left the newer lease alone.
    assert!(next.renew().is_ok());
    late.parse().unwrap()
}
