//! The counters of fencing tokens: how long they live, and that numbers grow without them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use guard_conformance::{PATIENCE, Waiting};
use guard_redis::{
    IsolationScope, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxIsolationKey,
    SandboxLease,
};
use guard_store_tests::redis_server::RedisServer;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Fenced {
    guard: RedisSandboxExecutionGuard,
    counter: String,
    /// By the client library: a counter's name holds a NUL, which `redis-cli` cannot pass on.
    eye: redis::Connection,
    _server: RedisServer,
}

impl Fenced {
    fn new(ttl: Duration) -> Self {
        let server = RedisServer::start();
        let builder = RedisSandboxExecutionGuard::builder(server.url());
        let guard = builder.fencing(true).lease_ttl(ttl).build().unwrap();
        Self {
            counter: guard.fencing_counter(&key()),
            eye: server.client().get_connection().unwrap(),
            guard,
            _server: server,
        }
    }

    fn enter(&self) -> SandboxLease {
        self.guard.try_enter_for(&key(), PATIENCE).unwrap()
    }

    fn ask<T: redis::FromRedisValue>(&mut self, command: &str, arguments: &[&str]) -> T {
        let mut command = redis::cmd(command);
        let command = command.arg(&self.counter).arg(arguments);
        command.query(&mut self.eye).unwrap()
    }

    /// Lets the counter have a minute to live.
    fn wither(&mut self) {
        let changed: bool = self.ask("PEXPIRE", &["60000"]);
        assert!(changed, "there is a counter");
    }

    #[track_caller]
    fn assert_lives_for(&mut self, life: Duration) {
        let left = Duration::from_millis(self.ask("PTTL", &[]));
        assert!(left <= life && left > life - DAY, "{left:?}");
    }
}

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap()
}

fn number(lease: &SandboxLease) -> u64 {
    lease.fencing_token().unwrap().get()
}

#[test]
fn a_counter_lives_for_thirty_days_or_a_hundred_ttls_after_every_use() {
    for (ttl, life) in [(PATIENCE, 30 * DAY), (2 * DAY, 200 * DAY)] {
        let mut fenced = Fenced::new(ttl);
        let lease = fenced.enter();
        fenced.assert_lives_for(life);
        fenced.wither();
        lease.renew().unwrap();
        fenced.assert_lives_for(life);
        fenced.wither();
        let waiting = {
            let guard = fenced.guard.clone();
            Waiting::start(move || guard.try_enter(&key()).unwrap())
        };
        lease.close();
        let next = waiting.result();
        fenced.assert_lives_for(life);
        fenced.wither();
        next.close();
        drop(fenced.enter());
        fenced.assert_lives_for(life);
    }
}

#[test]
fn numbers_grow_where_the_counter_is_lost_and_where_it_is_ahead_of_the_clock() {
    let mut fenced = Fenced::new(PATIENCE);
    let first = number(&fenced.enter());
    let deleted: bool = fenced.ask("DEL", &[]);
    assert!(deleted);
    let second = number(&fenced.enter());
    assert!(second > first, "{second} after {first}");
    // The clock of the server was set back by an hour.
    let ahead = second + 3_600_000_000;
    let _: () = fenced.ask("SET", &[&ahead.to_string()]);
    assert_eq!(number(&fenced.enter()), ahead + 1);
    assert_eq!(number(&fenced.enter()), ahead + 2);
}
