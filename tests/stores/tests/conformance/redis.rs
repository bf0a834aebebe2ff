//! The suite's view of real Redis servers.

use std::any::Any;
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use guard_conformance::{Backend, Foreign, Network};
use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};
use guard_redis::{RedisGuardBuilder, RedisSandboxExecutionGuard};
use guard_store_tests::certificates::Certificates;
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::{Cluster, Sentinels, builder};

/// A way to build guards. The fields are in the order in which they go.
pub(crate) struct Redis {
    name: &'static str,
    address: String,
    customise: Customise,
    guard: RedisSandboxExecutionGuard,
    servers: Box<dyn Servers>,
    environment: Vec<(&'static str, OsString)>,
    /// What is there as long as the servers are.
    kept: Option<Box<dyn Any + Send + Sync>>,
}

/// Where the slots are: on one server, or on several.
pub(crate) trait Servers: Send + Sync + 'static {
    /// How guards are told of them.
    fn address(&self) -> String;

    /// Those that have the keys.
    fn masters(&self) -> Vec<&RedisServer>;

    /// Runs `redis-cli` on the one that has the key.
    fn cli(&self, arguments: &[&str]) -> String;
}

impl Servers for RedisServer {
    fn address(&self) -> String {
        self.url()
    }

    fn masters(&self) -> Vec<&RedisServer> {
        vec![self]
    }

    fn cli(&self, arguments: &[&str]) -> String {
        self.cli(arguments)
    }
}

impl Servers for Sentinels {
    fn address(&self) -> String {
        self.address()
    }

    fn masters(&self) -> Vec<&RedisServer> {
        vec![self.master_server()]
    }

    fn cli(&self, arguments: &[&str]) -> String {
        self.master_server().cli(arguments)
    }
}

impl Servers for Cluster {
    fn address(&self) -> String {
        self.address()
    }

    fn masters(&self) -> Vec<&RedisServer> {
        self.masters()
    }

    fn cli(&self, arguments: &[&str]) -> String {
        // It follows redirections.
        let arguments = [&["-c"], arguments].concat();
        self.nodes()[0].cli(&arguments)
    }
}

type Customise = Box<dyn Fn(RedisGuardBuilder) -> RedisGuardBuilder + Send + Sync>;

impl Redis {
    /// Starts a server and makes guards on it as `customise` says.
    pub(crate) fn start(
        name: &'static str,
        customise: fn(RedisGuardBuilder) -> RedisGuardBuilder,
    ) -> Self {
        let server = RedisServer::start();
        let url = server.url();
        Self::on(name, server, url, customise)
    }

    /// Makes guards on `servers` as `customise` says.
    pub(crate) fn over(
        name: &'static str,
        servers: impl Servers,
        customise: impl Fn(RedisGuardBuilder) -> RedisGuardBuilder + Send + Sync + 'static,
    ) -> Self {
        let address = servers.address();
        Self::on(name, servers, address, customise)
    }

    /// Makes guards on servers at `address` as `customise` says.
    pub(crate) fn on(
        name: &'static str,
        servers: impl Servers,
        address: String,
        customise: impl Fn(RedisGuardBuilder) -> RedisGuardBuilder + Send + Sync + 'static,
    ) -> Self {
        let guard = customise(builder(&address));
        let guard = guard.build().expect("servers that were just started");
        Self {
            name,
            address,
            customise: Box::new(customise),
            guard,
            servers: Box::new(servers),
            environment: Vec::new(),
            kept: None,
        }
    }

    /// Keeps something as long as the servers.
    pub(crate) fn with(mut self, kept: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(kept));
        self
    }

    /// Other processes get this variable.
    pub(crate) fn with_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Makes guards on servers that `start` starts with certificates.
    pub(crate) fn by_tls<S: Servers>(
        name: &'static str,
        start: impl FnOnce(&Arc<Certificates>) -> S,
    ) -> Self {
        let certificates = Arc::new(Certificates::new(&["127.0.0.1"]));
        let servers = start(&certificates);
        let directory = certificates.directory().to_owned();
        let introduced = move |builder| certificates.introduce(builder);
        Self::over(name, servers, introduced).with_variable("GUARD_CERTIFICATES", directory)
    }

    /// The only server's port, if the guards' address names it.
    fn own_port(&self) -> Option<u16> {
        let [server] = self.servers.masters()[..] else {
            return None;
        };
        let port = server.port();
        self.address.contains(&format!(":{port}")).then_some(port)
    }

    fn keys(&self, pattern: &str) -> Vec<String> {
        let of_server = |server: &RedisServer| -> Vec<String> {
            let mut connection = server.client().get_connection().unwrap();
            let keys = redis::cmd("KEYS").arg(pattern).query(&mut connection);
            keys.unwrap()
        };
        self.servers
            .masters()
            .into_iter()
            .flat_map(of_server)
            .collect()
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
        let builder = builder(&self.address).settings(config);
        Ok(Arc::new((self.customise)(builder).build()?))
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }

    fn another_process(&self) -> Option<Command> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lease_holder"));
        command.arg(&self.address);
        command.envs(self.environment.iter().cloned());
        Some(command)
    }

    fn network(&self) -> Option<&dyn Network> {
        self.own_port().map(|_| self as &dyn Network)
    }
}

impl Network for Redis {
    fn port(&self) -> u16 {
        self.own_port().unwrap()
    }

    fn store_at(&self, port: u16) -> Arc<dyn LeaseStore> {
        let own = format!(":{}", self.port());
        let address = self.address.replace(&own, &format!(":{port}"));
        let guard = (self.customise)(builder(&address)).build().unwrap();
        Arc::new(guard.store().clone())
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
        assert_eq!(self.servers.cli(&arguments), "OK");
    }

    fn delete(&self, slot: &SlotName) {
        self.servers.cli(&["DEL", slot.as_str()]);
    }

    fn plant_data(&self, slot: &SlotName) {
        self.delete(slot);
        self.servers.cli(&["RPUSH", slot.as_str(), "an element"]);
    }

    fn carries_data(&self, slot: &SlotName) -> bool {
        self.servers.cli(&["LRANGE", slot.as_str(), "0", "-1"]) == "an element"
    }

    fn carries(&self, slot: &SlotName, token: &str) -> bool {
        self.servers.cli(&["GET", slot.as_str()]) == token
    }

    fn ttl(&self, slot: &SlotName) -> Option<Duration> {
        let millis = self.servers.cli(&["PTTL", slot.as_str()]);
        millis.parse().ok().map(Duration::from_millis)
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        self.keys(&format!("*{prefix}*"))
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
