//! Commands that go unanswered, and what comes of them: never a slot that is held by nobody. A proxy cuts
//! each exchange at every byte, and holds commands back to deliver them at the worst moments. Each test has a
//! server of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cuts;
mod forbidden;
mod hand_overs;
mod held_back;
mod looks;
mod outlasting;

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::proxy::Proxy;
use guard_redis::{
    GuardError, IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxIsolationKey,
    Wakeups,
};
use guard_store_tests::redis_server::RedisServer;
use redis::Commands;

/// How soon after the store can be reached again a slot must be free of what went unanswered …
const FREED_WITHIN: Duration = Duration::from_secs(1);
/// … and what a noisy machine may add.
const SLACK: Duration = Duration::from_millis(500);
/// Long enough for a ghost to come.
const A_WHILE: Duration = Duration::from_millis(100);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// A server, and a proxy before it.
struct Scene {
    proxy: Proxy,
    server: RedisServer,
    fencing: bool,
}

impl Scene {
    fn new(fencing: bool) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        Self {
            proxy,
            server,
            fencing,
        }
    }

    /// Leases that no test outlives: a slot that comes free does so because somebody freed it.
    fn builder(&self, url: &str) -> RedisGuardBuilder {
        RedisSandboxExecutionGuard::builder(url)
            .retry_interval(Duration::from_millis(20))
            .operation_timeout(OPERATION_TIMEOUT)
            .wakeups(Wakeups::Polling)
            .fencing(self.fencing)
    }

    fn guard(&self) -> RedisSandboxExecutionGuard {
        build(|| self.builder(&self.proxy.url()))
    }

    /// A look at the server that no fault of the proxy disturbs.
    fn eye(&self) -> Eye {
        let client = redis::Client::open(self.server.url()).unwrap();
        Eye(client.get_connection().unwrap())
    }
}

/// Builds a guard, again if the short operation timeout was too short for a noisy machine.
fn build(builder: impl Fn() -> RedisGuardBuilder) -> RedisSandboxExecutionGuard {
    let start = Instant::now();
    loop {
        match builder().build() {
            Ok(guard) => return guard,
            Err(error) => assert!(
                error.is_transient() && start.elapsed() < PATIENCE,
                "{error:?}"
            ),
        }
    }
}

struct Eye(redis::Connection);

impl Eye {
    fn holder(&mut self, slot: &str) -> Option<String> {
        self.0.get(slot).unwrap()
    }

    /// Asserts that a slot comes free in time, now that the store can be reached.
    #[track_caller]
    fn freed(&mut self, slot: &str, what: &str) {
        let start = Instant::now();
        while let Some(holder) = self.holder(slot) {
            let waited = start.elapsed();
            assert!(
                waited < FREED_WITHIN + SLACK,
                "{what}: after {waited:?} {slot} is still held by {holder}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Asserts that no slot is taken, now and a while later: nobody holds one any more.
    #[track_caller]
    fn no_ghosts(&mut self) {
        for _ in 0..2 {
            let slots: Vec<String> = self.0.keys("agentscope:*").unwrap();
            assert!(slots.is_empty(), "{slots:?}");
            thread::sleep(A_WHILE);
        }
    }
}

#[track_caller]
fn assert_passing_failure<T>(outcome: Result<T, GuardError>, what: &str) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) if error.is_transient() => {}
        other => panic!("{what}: {other:?}"),
    }
}
