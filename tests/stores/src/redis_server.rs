//! A real `redis-server` of one's own, and faults for it.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use guard_redis::redis::Client;

use crate::certificates::Certificates;
use crate::daemon::{Daemon, Program, free_port, output};

const INSTALL: &str = "on Debian: apt-get install redis-server";

/// How far above its port a node of a cluster talks to the others.
pub const BUS: u16 = 10_000;

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Clients must give this password.
    pub password: Option<String>,
    /// Further arguments for `redis-server`.
    pub arguments: Vec<String>,
    /// What a sentinel is told, if it is to be one.
    pub sentinel: Option<String>,
    /// Whether it also takes the port [`BUS`] above its own, as a node of a cluster does.
    pub bus: bool,
    /// With these the server speaks TLS, to everybody.
    pub tls: Option<Arc<Certificates>>,
}

/// A `redis-server` on a free port, with nothing on disk; it is stopped when this is dropped.
pub type RedisServer = Daemon<Setup>;

impl Program for Setup {
    const NAME: &'static str = "redis-server";

    fn port(&self) -> u16 {
        loop {
            let port = free_port();
            let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
            if !self.bus || port.checked_add(BUS).is_some_and(is_free) {
                return port;
            }
        }
    }

    fn command(server: &RedisServer) -> Command {
        let setup = &server.program;
        let mut command = Command::new("redis-server");
        if let Some(orders) = &setup.sentinel {
            command.arg(server.write_orders(orders)).arg("--sentinel");
        } else {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let port = server.port().to_string();
        match &setup.tls {
            Some(certificates) => command.args(certificates.server_arguments(&port)),
            None => command.args(["--port", &port]),
        };
        command.args(["--bind", "127.0.0.1"]);
        command.args(["--logfile", "log", "--dir"]);
        command.arg(server.path(""));
        if let Some(password) = &setup.password {
            command.args(["--requirepass", password]);
        }
        command.args(&setup.arguments);
        command
    }

    /// That a server is ours tells its process id.
    fn is_up(server: &RedisServer) -> bool {
        let ours = format!("process_id:{}\r", server.pid().as_raw_nonzero());
        let info = server.redis_cli(&["INFO", "server"]);
        info.is_ok_and(|info| info.contains(&ours))
    }
}

impl RedisServer {
    /// Starts a server that lets everybody in.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When it cannot be started: a machine without Redis must not read as one where the tests pass.
    #[must_use]
    pub fn start_with(setup: Setup) -> Self {
        for tool in ["redis-server", "redis-cli"] {
            let version = Command::new(tool).arg("--version").output();
            if version.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                panic!("`{tool}` is not installed; {INSTALL}");
            }
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::launch(setup, directory)
    }

    /// Writes what a sentinel starts with, unless it has made it its own by now. Answers where.
    fn write_orders(&self, orders: &str) -> PathBuf {
        let path = self.path("sentinel.conf");
        if !path.exists() {
            fs::write(&path, orders).expect("a place for the orders");
        }
        path
    }

    /// A client of the server, with a password and certificates if need be.
    ///
    /// # Panics
    ///
    /// When the client library does not take the server's URL.
    #[must_use]
    pub fn client(&self) -> Client {
        match self.certificates() {
            Some(certificates) => certificates.client(&self.url()),
            None => Client::open(self.url()).expect("a URL"),
        }
    }

    /// The server's URL, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.program.password.as_deref();
        let credentials = password.map_or_else(String::new, |password| format!(":{password}@"));
        let scheme = match self.program.tls {
            Some(_) => "rediss",
            None => "redis",
        };
        format!("{scheme}://{credentials}127.0.0.1:{}/0", self.port())
    }

    /// The certificates, if the server speaks TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.program.tls.as_deref()
    }

    /// Runs `redis-cli` on the server; answers what it prints, without the last line's end.
    ///
    /// # Panics
    ///
    /// When `redis-cli` cannot reach the server.
    pub fn cli(&self, arguments: &[&str]) -> String {
        match self.redis_cli(arguments) {
            Ok(output) => output.strip_suffix('\n').unwrap_or(&output).to_owned(),
            Err(error) => panic!("redis-cli {arguments:?}: {error}"),
        }
    }

    /// The same; what goes wrong is answered too, for servers that come and go.
    pub(crate) fn redis_cli(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port().to_string()]);
        if let Some(certificates) = &self.program.tls {
            command.args(certificates.client_arguments());
        }
        command.args(arguments);
        if let Some(password) = &self.program.password {
            command.env("REDISCLI_AUTH", password);
        }
        output(&mut command, INSTALL)
    }
}
