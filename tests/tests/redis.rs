//! The suite on a real Redis server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use guard_conformance::redis_server::RedisServer;
use guard_conformance::{Backend, Foreign};
use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};
use guard_redis::RedisSandboxExecutionGuard;

fn main() -> ExitCode {
    let server = RedisServer::start();
    let guard = RedisSandboxExecutionGuard::builder(server.url());
    let guard = guard.build().expect("the server that was just started");
    guard_conformance::run(Redis { guard, server })
}

/// The fields are in the order in which they go.
struct Redis {
    guard: RedisSandboxExecutionGuard,
    server: RedisServer,
}

impl Backend for Redis {
    fn name(&self) -> &str {
        "Redis"
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.guard.store().clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = RedisSandboxExecutionGuard::builder(self.server.url());
        Ok(Arc::new(builder.settings(config).build()?))
    }

    fn foreign(&self) -> &dyn Foreign {
        self
    }

    fn another_process(&self) -> Option<Command> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lease_holder"));
        command.arg(self.server.url());
        Some(command)
    }
}

/// `redis-cli` is the program that is not ours.
impl Foreign for Redis {
    fn set(&self, slot: &SlotName, token: &str, ttl: Option<Duration>) {
        let millis = ttl.map(|ttl| ttl.as_millis().to_string());
        let mut arguments = vec!["SET", slot.as_str(), token];
        if let Some(millis) = &millis {
            arguments.extend(["PX", millis]);
        }
        assert_eq!(self.server.cli(&arguments), "OK");
    }

    fn delete(&self, slot: &SlotName) {
        self.server.cli(&["DEL", slot.as_str()]);
    }

    fn plant_data(&self, slot: &SlotName) {
        self.delete(slot);
        self.server.cli(&["RPUSH", slot.as_str(), "an element"]);
    }

    fn carries_data(&self, slot: &SlotName) -> bool {
        self.server.cli(&["LRANGE", slot.as_str(), "0", "-1"]) == "an element"
    }

    fn carries(&self, slot: &SlotName, token: &str) -> bool {
        self.server.cli(&["GET", slot.as_str()]) == token
    }

    fn ttl(&self, slot: &SlotName) -> Option<Duration> {
        let millis = self.server.cli(&["PTTL", slot.as_str()]);
        millis.parse().ok().map(Duration::from_millis)
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let pattern = format!("{prefix}*");
        let names = self.server.cli(&["--scan", "--pattern", &pattern]);
        names.lines().map(str::to_owned).collect()
    }
}
