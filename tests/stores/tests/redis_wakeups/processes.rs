//! Holders in other processes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{NEVER, SOON, enters_within, guard, hold, key, until_watched, wait};

const PREFIX: &str = "two-processes";

/// Another process that holds the slot of `a`.
struct Holder(Child);

impl Holder {
    fn start(server: &RedisServer, ttl: Duration) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_lease_holder"))
            .args([&server.url(), PREFIX, "hold", "agent", "a"])
            .arg(ttl.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut this = Self(child);
        let mut line = String::new();
        let mut from = BufReader::new(this.0.stdout.as_mut().unwrap());
        from.read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        this
    }

    fn close(&mut self) {
        writeln!(self.0.stdin.as_mut().unwrap(), "close").unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn waiting_guard(server: &RedisServer) -> RedisSandboxExecutionGuard {
    let builder = RedisSandboxExecutionGuard::builder(server.url());
    let builder = builder.key_prefix(PREFIX).retry_interval(NEVER);
    builder.build().unwrap()
}

#[test]
fn a_close_in_another_process_wakes_the_next_one() {
    let server = RedisServer::start();
    let guard = waiting_guard(&server);
    for _ in 0..3 {
        let mut holder = Holder::start(&server, NEVER);
        let waiting = wait(&guard, &key("a"));
        until_watched(&server, 1);
        holder.close();
        enters_within(SOON, waiting).close();
    }
}

#[test]
fn the_ttl_of_a_killed_process_ends_the_wait() {
    let server = RedisServer::start();
    let guard = waiting_guard(&server);
    let mut holder = Holder::start(&server, SOON);
    let waiting = wait(&guard, &key("a"));
    holder.0.kill().unwrap();
    enters_within(2 * SOON, waiting).close();
}

#[test]
fn a_key_deleted_by_redis_cli_wakes_the_next_one() {
    let server = RedisServer::start();
    let guard = guard(&server);
    for command in ["DEL", "UNLINK", "GETDEL"] {
        hold(&server, &guard, &key("a"));
        let waiting = wait(&guard, &key("a"));
        until_watched(&server, 1);
        server.cli(&[command, guard.slot(&key("a")).as_str()]);
        enters_within(SOON, waiting).close();
    }
}

#[test]
fn a_ttl_that_is_set_or_cut_short_later_ends_the_wait() {
    let server = RedisServer::start();
    let guard = guard(&server);
    hold(&server, &guard, &key("a"));
    let waiting = wait(&guard, &key("a"));
    until_watched(&server, 1);
    server.cli(&["PEXPIRE", guard.slot(&key("a")).as_str(), "300"]);
    enters_within(SOON, waiting).close();
}

#[test]
fn who_queues_behind_a_woken_one_enters_in_turn() {
    let server = RedisServer::start();
    let guard = guard(&server);
    hold(&server, &guard, &key("a"));
    let waiting: Vec<_> = (0..5).map(|_| wait(&guard, &key("a"))).collect();
    until_watched(&server, 1);
    server.cli(&["FLUSHALL"]);
    for waiting in waiting {
        enters_within(SOON, waiting).close();
    }
    assert!(guard.holder(&key("a")).unwrap().is_none());
}
