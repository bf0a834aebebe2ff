//! A real `redis-server` of one's own, and faults for it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::fixture::PATIENCE;

/// Starts the server in the background, tells its process id, and kills it when the pipe to this shell is
/// closed: on purpose, or because the test process is gone, however it ended.
const WATCHER: &str = r#"redis-server "$@" >/dev/null 2>&1 </dev/null & server=$!
echo $server; read -r _; kill -9 $server; wait $server"#;

/// Ports that may be lost to somebody else between finding and using them.
const ATTEMPTS: usize = 10;

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
#[derive(Debug)]
pub struct RedisServer {
    // Before the directory, which must outlive the server.
    running: Option<Running>,
    port: u16,
    setup: Setup,
    directory: TempDir,
}

#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
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
                panic!("`{tool}` is not installed; on Debian: apt-get install redis-server");
            }
        }
        let mut this = Self {
            running: None,
            port: 0,
            setup,
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        for _ in 0..ATTEMPTS {
            this.port = if this.setup.bus {
                free_port_with_bus()
            } else {
                free_port()
            };
            if this.launch() {
                return this;
            }
        }
        panic!("redis-server does not start: {}", this.log());
    }

    /// Answers whether the server runs; otherwise its port is taken, or its arguments are wrong.
    fn launch(&mut self) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "redis-watcher"]);
        if let Some(orders) = &self.setup.sentinel {
            command.arg(self.write_orders(orders)).arg("--sentinel");
        } else {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let port = self.port.to_string();
        match &self.setup.tls {
            Some(certificates) => command.args(certificates.server_arguments(&port)),
            None => command.args(["--port", &port]),
        };
        command.args(["--bind", "127.0.0.1"]);
        command.args(["--logfile", "log", "--dir"]);
        command.arg(self.directory.path());
        if let Some(password) = &self.setup.password {
            command.args(["--requirepass", password]);
        }
        let mut watcher = command
            .args(&self.setup.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The shell reports what it killed.
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let mut pid = String::new();
        BufReader::new(watcher.stdout.take().expect("a pipe"))
            .read_line(&mut pid)
            .expect("the watcher tells the server's process id");
        let server = pid.trim().parse().ok().and_then(Pid::from_raw);
        let server = server.expect("a process id");
        self.running = Some(Running { watcher, server });

        // A server answers on this port; that it is ours tells its process id.
        let ours = format!("process_id:{}\r", server.as_raw_nonzero());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && is_alive(server) {
            let info = self.redis_cli(&["INFO", "server"]);
            if info.is_ok_and(|info| info.contains(&ours)) {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        false
    }

    /// Writes what a sentinel starts with, unless it has made it its own by now. Answers where.
    fn write_orders(&self, orders: &str) -> PathBuf {
        let path = self.directory.path().join("sentinel.conf");
        if !path.exists() {
            fs::write(&path, orders).expect("a place for the orders");
        }
        path
    }

    /// The server's URL, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let password = self.setup.password.as_deref();
        let credentials = password.map_or_else(String::new, |password| format!(":{password}@"));
        let scheme = match self.setup.tls {
            Some(_) => "rediss",
            None => "redis",
        };
        format!("{scheme}://{credentials}127.0.0.1:{}/0", self.port)
    }

    /// The certificates, if the server speaks TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.setup.tls.as_deref()
    }

    /// The server's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server: its memory is gone, its port refuses.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.watcher.stdin.take());
            // An error would only say that it is gone already.
            let _ = running.watcher.wait();
        }
    }

    /// Kills the server and starts it again on the same port, with nothing in its memory.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        assert!(
            self.launch(),
            "redis-server does not restart: {}",
            self.log()
        );
    }

    /// Stops the server's process (SIGSTOP): connections stay open, nothing is answered.
    pub fn stop_process(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped server go on (SIGCONT).
    pub fn cont_process(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let running = self.running.as_ref().expect("the server runs");
        kill_process(running.server, signal).expect("the server is there");
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
        command.args(["-p", &self.port.to_string()]);
        if let Some(certificates) = &self.setup.tls {
            command.args(certificates.client_arguments());
        }
        command.args(arguments);
        if let Some(password) = &self.setup.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.output().expect("redis-cli starts");
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// What the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now.
///
/// # Panics
///
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    port.expect("a free port").port()
}

fn free_port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let above = port.checked_add(BUS);
        if above.is_some_and(|above| TcpListener::bind((Ipv4Addr::LOCALHOST, above)).is_ok()) {
            return port;
        }
    }
}

/// Whether a process is there and has not ended; the watcher has not taken note of its end yet.
fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
