//! The suite's view of a real Redis server; each target builds its guards in its own way.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "each target is a crate of its own, and uses its own part"
)]

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use guard_conformance::redis_server::RedisServer;
use guard_conformance::{Backend, Foreign};
use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};
use guard_redis::{RedisGuardBuilder, RedisSandboxExecutionGuard};

/// A way to build guards. The fields are in the order in which they go.
pub struct Redis {
    name: &'static str,
    url: String,
    customise: Customise,
    guard: RedisSandboxExecutionGuard,
    server: RedisServer,
    environment: Vec<(&'static str, OsString)>,
}

type Customise = Box<dyn Fn(RedisGuardBuilder) -> RedisGuardBuilder + Send + Sync>;

impl Redis {
    /// Starts a server and makes guards on it as `customise` says.
    pub fn start(
        name: &'static str,
        customise: fn(RedisGuardBuilder) -> RedisGuardBuilder,
    ) -> Self {
        let server = RedisServer::start();
        let url = server.url();
        Self::on(name, server, url, customise)
    }

    /// Makes guards on a server at `url` as `customise` says.
    pub fn on(
        name: &'static str,
        server: RedisServer,
        url: String,
        customise: impl Fn(RedisGuardBuilder) -> RedisGuardBuilder + Send + Sync + 'static,
    ) -> Self {
        let guard = customise(RedisSandboxExecutionGuard::builder(&*url));
        let guard = guard.build().expect("the server that was just started");
        Self {
            name,
            url,
            customise: Box::new(customise),
            guard,
            server,
            environment: Vec::new(),
        }
    }

    /// Other processes get this variable.
    pub fn with_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let keys = redis::cmd("KEYS").arg(pattern).query(&mut connection);
        keys.unwrap()
    }
}

impl Backend for Redis {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.guard.store().clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = RedisSandboxExecutionGuard::builder(&*self.url).settings(config);
        Ok(Arc::new((self.customise)(builder).build()?))
    }

    fn foreign(&self) -> &dyn Foreign {
        self
    }

    fn another_process(&self) -> Option<Command> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lease_holder"));
        command.arg(&self.url);
        command.envs(self.environment.iter().cloned());
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
        self.keys(&format!("{prefix}*"))
    }

    fn counters(&self) -> Option<Vec<String>> {
        let numbers = self.guard.store().capabilities().fencing;
        // `redis-cli` takes no NUL in its arguments, which is in every counter's name.
        numbers.then(|| {
            self.keys("*f")
                .into_iter()
                .filter(|name| name.ends_with("\0f"))
                .collect()
        })
    }
}
