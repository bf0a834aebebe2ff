//! A store that is gone for a while, for too long, or that answers with errors. Each test has a server of
//! its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod closing;
mod refusals;
mod rights;
mod waiting;

use std::time::Duration;

use guard_conformance::proxy::Proxy;
use guard_redis::{
    GuardError, IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::redis_server::RedisServer;

/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

fn builder(url: &str) -> RedisGuardBuilder {
    RedisSandboxExecutionGuard::builder(url).retry_interval(Duration::from_millis(50))
}

/// How the store is gone. Its memory stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Stopped,
    BlackHole,
    Refused,
}

const WAYS: [Gone; 3] = [Gone::Stopped, Gone::BlackHole, Gone::Refused];

/// A server behind a proxy.
struct Scene {
    proxy: Proxy,
    server: RedisServer,
}

impl Scene {
    fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        Self { proxy, server }
    }

    fn begin(&self, gone: Gone) {
        match gone {
            Gone::Stopped => self.server.stop_process(),
            Gone::BlackHole => self.proxy.black_hole(true),
            Gone::Refused => {
                self.proxy.refuse(true);
                self.proxy.cut_all();
            }
        }
    }

    fn end(&self, gone: Gone) {
        match gone {
            Gone::Stopped => self.server.cont_process(),
            Gone::BlackHole | Gone::Refused => self.proxy.heal(),
        }
    }

    fn exists(&self, slot: &str) -> bool {
        self.server.cli(&["EXISTS", slot]) == "1"
    }
}

/// Runs a test once for each way of being gone, beside each other.
fn each_way(test: impl Fn(&Scene, Gone) + Sync) {
    std::thread::scope(|scope| {
        for gone in WAYS {
            let test = &test;
            scope.spawn(move || test(&Scene::new(), gone));
        }
    });
}

#[track_caller]
fn assert_transient<T>(outcome: Result<T, GuardError>) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) if error.is_transient() => {}
        other => panic!("{other:?}"),
    }
}
