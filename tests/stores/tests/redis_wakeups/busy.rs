//! The tracked connection is in use, by a look that gets no answer: others look without it.

use std::time::Duration;

use guard_conformance::eventually;
use guard_conformance::proxy::Proxy;
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::redis_server::RedisServer;

use crate::{NEVER, SOON, Wait, enters_within, free, hold, key, until_watched, wait};

/// A look on the tracked connection may take half of it.
const TIMEOUT: Duration = Duration::from_secs(12);
/// Before that.
const LONG_BEFORE: Duration = Duration::from_secs(4);

struct Scene {
    server: RedisServer,
    proxy: Proxy,
    guard: RedisSandboxExecutionGuard,
}

impl Scene {
    /// Two waiters, of which the first one's look hangs on the tracked connection.
    fn start() -> (Self, Wait, Wait) {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        let builder = RedisSandboxExecutionGuard::builder(proxy.url());
        let builder = builder.retry_interval(NEVER).operation_timeout(TIMEOUT);
        let guard = builder.build().unwrap();
        let [hung, other] = ["hung", "other"].map(|value| {
            hold(&server, &guard, &key(value));
            wait(&guard, &key(value))
        });
        until_watched(&server, 2);
        let scene = Self {
            server,
            proxy,
            guard,
        };
        scene.proxy.hold_next();
        scene.free("hung");
        eventually("a look hangs", || scene.proxy.is_holding());
        (scene, hung, other)
    }

    fn free(&self, value: &str) {
        free(&self.server, &self.guard, &key(value));
    }

    /// How many scripts the server has run: a pooled look at a slot that is held is one.
    fn scripts(&self) -> u64 {
        let info = self.server.cli(&["INFO", "commandstats"]);
        let mut lines = info.lines();
        let calls = lines.find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls
            .and_then(|calls| calls.split(',').next()?.parse().ok())
            .unwrap_or_default()
    }
}

#[test]
fn a_look_goes_by_the_pool_when_the_tracked_connection_is_in_use() {
    let (scene, hung, other) = Scene::start();
    scene.free("other");
    enters_within(LONG_BEFORE, other).close();
    scene.proxy.deliver();
    hung.result().unwrap().close();
}

#[test]
fn who_looked_by_the_pool_is_told_of_changes_again() {
    let (scene, hung, other) = Scene::start();
    let before = scene.scripts();
    // Its holder changes, which the waiter is told of once.
    hold(&scene.server, &scene.guard, &key("other"));
    eventually("a pooled look", || scene.scripts() > before);
    scene.proxy.deliver();
    hung.result().unwrap().close();
    until_watched(&scene.server, 1);
    scene.free("other");
    enters_within(SOON, other).close();
}

#[test]
fn a_crowd_that_queues_for_the_tracked_connection_is_told_of_changes_all_the_same() {
    const CROWD: usize = 100;
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = RedisSandboxExecutionGuard::builder(proxy.url())
        .retry_interval(NEVER)
        .build()
        .unwrap();
    let keys: Vec<_> = (0..CROWD).map(|number| key(&number.to_string())).collect();
    for key in &keys {
        hold(&server, &guard, key);
    }
    // One look at a time makes a queue that is longer than anybody waits in it.
    proxy.delay(Duration::from_millis(5));
    let waiters: Vec<_> = keys.iter().map(|key| wait(&guard, key)).collect();
    until_watched(&server, CROWD);
    proxy.delay(Duration::ZERO);
    for (key, waiter) in keys.iter().zip(waiters) {
        free(&server, &guard, key);
        enters_within(SOON, waiter).close();
    }
}
