//! A real MariaDB server of one's own, and faults for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::fixture::PATIENCE;
use crate::postgres_server::{free_port, is_alive, is_root};

/// Starts the server in the background, tells its process id, and kills it when the pipe to this shell is closed:
/// on purpose, or because the test process is gone.
const WATCHER: &str = r#""$@" >/dev/null 2>&1 </dev/null & server=$!
echo $server; read -r _
kill -KILL $server; wait $server"#;

/// Ports that may be lost to somebody else between finding and using them.
const ATTEMPTS: usize = 10;

/// Small, quick and without InnoDB: locks need no table.
const SETTINGS: [&str; 3] = [
    "--no-defaults",
    "--innodb=OFF",
    "--default-storage-engine=Aria",
];

const INSTALL: &str = "on Debian: apt-get install mariadb-server";

/// A MariaDB server on a free port whose `root` needs no password; it is stopped when this is dropped.
#[derive(Debug)]
pub struct MariaDbServer {
    // Before the directory, which must outlive the server.
    running: Option<Running>,
    port: u16,
    arguments: Vec<String>,
    directory: TempDir,
}

#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
}

impl MariaDbServer {
    /// Starts a server.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with settings of its own, such as `max-connections=10`.
    ///
    /// # Panics
    ///
    /// When it cannot be started: a machine without MariaDB must not read as one where the tests pass.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new(tool("mariadb-install-db"))
            .args(SETTINGS)
            .args(as_user())
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(format!(
                "--datadir={}",
                directory.path().join("data").display()
            ))
            // Servers that share a folder for this remove each other's files.
            .env("TMPDIR", directory.path())
            .output()
            .expect("mariadb-install-db starts");
        assert!(
            output.status.success(),
            "mariadb-install-db: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut this = Self {
            running: None,
            port: 0,
            arguments: settings
                .iter()
                .map(|setting| format!("--{setting}"))
                .collect(),
            directory,
        };
        for _ in 0..ATTEMPTS {
            this.port = free_port();
            if this.launch() {
                return this;
            }
        }
        panic!("mariadbd does not start: {}", this.log());
    }

    fn launch(&mut self) -> bool {
        let own = self.directory.path().display();
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "mariadb-watcher"]);
        command.arg(tool("mariadbd")).args(SETTINGS).args(as_user());
        command.arg(format!("--datadir={own}/data"));
        command.arg(format!("--log-error={own}/log"));
        command.arg(format!("--pid-file={own}/pid"));
        command.arg(format!("--socket={own}/socket"));
        command.arg(format!("--tmpdir={own}"));
        command.arg(format!("--port={}", self.port));
        command.args(["--bind-address=127.0.0.1", "--max-connections=200"]);
        // Where sessions tell their names.
        command.arg("--performance-schema=ON");
        let mut watcher = command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
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

        // A server answers on this port; that it is ours tells where its data is.
        let ours = format!("{own}/data");
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && is_alive(server) {
            if self
                .try_sql("SELECT @@datadir")
                .is_ok_and(|data| data.trim().trim_end_matches('/') == ours)
            {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        false
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// The URL of the server's socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        let path = self.directory.path().display().to_string();
        let path = path.replace('/', "%2F");
        format!("mysql://root@localhost?socket={path}%2Fsocket")
    }

    /// The server's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server: its locks are gone, its port refuses.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.watcher.stdin.take());
            // An error would only say that it is gone already.
            let _ = running.watcher.wait();
        }
    }

    /// Kills the server and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "mariadbd does not restart: {}", self.log());
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

    /// Runs SQL with the `mariadb` client; answers what it prints, without the last line's end.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn sql(&self, sql: &str) -> String {
        match self.try_sql(sql) {
            Ok(output) => output.trim_end().to_owned(),
            Err(error) => panic!("mariadb {sql:?}: {error}"),
        }
    }

    /// Runs SQL with the `mariadb` client; answers what it prints.
    ///
    /// # Errors
    ///
    /// What the client prints when it fails.
    ///
    /// # Panics
    ///
    /// When it is not installed.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        let output = self
            .client_command()
            .args(["-e", sql])
            .output()
            .unwrap_or_else(|error| panic!("`mariadb` does not start ({error}); {INSTALL}"));
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// A `mariadb` client of the server that prints bare values as soon as it has them.
    #[must_use]
    pub fn client_command(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--unbuffered", "--raw"]);
        command.args(["--skip-column-names", "--default-character-set=utf8mb4"]);
        command.args(["--user=root", "--host=127.0.0.1"]);
        command.arg(format!("--port={}", self.port));
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The URL of a server or a proxy on `port`.
#[must_use]
pub fn url(port: u16) -> String {
    format!("mysql://root@127.0.0.1:{port}")
}

/// The server has to be told that it may run as root.
fn as_user() -> Option<&'static str> {
    is_root().then_some("--user=root")
}

/// A program of MariaDB. Debian keeps the server off the path of users.
fn tool(name: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];
    let mut paths = folders
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    let found = paths.find(|path| path.exists());
    found.unwrap_or_else(|| panic!("`{name}` is not installed; {INSTALL}"))
}
