//! A real PostgreSQL server of one's own, and faults for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::fixture::PATIENCE;

/// Starts the server in the background, tells its process id, and ends it with all its backends, stopped ones
/// too, when the pipe to this shell is closed: on purpose, or because the test process is gone.
const WATCHER: &str = r#""$@" >/dev/null 2>&1 </dev/null & server=$!
echo $server; read -r _
kill -CONT $server $(cat /proc/$server/task/$server/children); kill -QUIT $server; wait $server"#;

/// Ports that may be lost to somebody else between finding and using them.
const ATTEMPTS: usize = 10;

/// The user that servers run as when the tests run as root, which PostgreSQL refuses.
const USER: &str = "postgres";

/// A PostgreSQL server on a free port that lets everybody in; it is stopped when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
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

impl PostgresServer {
    /// Starts a server.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with settings of its own, such as `max_connections=10`.
    ///
    /// # Panics
    ///
    /// When it cannot be started: a machine without PostgreSQL must not read as one where the tests pass.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = directory_of_server_user();
        let data = directory.path().join("data");
        let output = as_server_user(&tool("initdb"))
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--locale=C", "--no-sync", "--pgdata"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(
            output.status.success(),
            "initdb: {}",
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
        panic!("postgres does not start: {}", this.log());
    }

    fn launch(&mut self) -> bool {
        let log = self.directory.path();
        let server = as_server_user(&tool("postgres"));
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER, "postgres-watcher"]);
        command.arg(server.get_program()).args(server.get_args());
        command.arg("-D").arg(self.directory.path().join("data"));
        command.args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-k", ""]);
        command.args(["--fsync=off", "--max_connections=200"]);
        command.args(["--logging_collector=on", "--log_filename=log"]);
        command.arg(format!("--log_directory={}", log.display()));
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
        let ours = self.directory.path().join("data").display().to_string();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && is_alive(server) {
            if self
                .psql("SHOW data_directory")
                .is_ok_and(|data| data.trim() == ours)
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
        assert!(self.launch(), "postgres does not restart: {}", self.log());
    }

    /// Stops the server's processes (SIGSTOP): connections stay open, nothing is answered.
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
        for backend in children(running.server) {
            // One that has ended just now needs no signal.
            let _ = kill_process(backend, signal);
        }
    }

    /// Runs SQL with `psql`; answers what it prints, without the last line's end.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn sql(&self, sql: &str) -> String {
        match self.psql(sql) {
            Ok(output) => output.trim_end().to_owned(),
            Err(error) => panic!("psql {sql:?}: {error}"),
        }
    }

    fn psql(&self, sql: &str) -> Result<String, String> {
        let output = self
            .psql_command()
            .args(["-c", sql])
            .output()
            .unwrap_or_else(|error| panic!("`psql` does not start ({error}); {INSTALL}"));
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// A `psql` on the server that prints bare values.
    #[must_use]
    pub fn psql_command(&self) -> Command {
        psql(&self.url())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

const INSTALL: &str = "on Debian: apt-get install postgresql";

/// The URL of a server, a pooler or a proxy on `port`.
#[must_use]
pub fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// A `psql` on the server, pooler or proxy at `url` that prints bare values.
#[must_use]
pub fn psql(url: &str) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-q", url]);
    command
}

/// A port that is free just now.
pub(crate) fn free_port() -> u16 {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    port.expect("a free port").port()
}

/// A program of the newest PostgreSQL that is installed. Debian keeps them off the path.
fn tool(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let numbers = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let newest: Option<u32> = numbers.max();
    let path = newest.map_or_else(
        || PathBuf::from("/usr/bin"),
        |version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")),
    );
    let path = path.join(name);
    assert!(path.exists(), "`{name}` is not installed; {INSTALL}");
    path
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program, run as a user that PostgreSQL accepts.
pub(crate) fn as_server_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    command.arg(program);
    command
}

/// A temporary directory that belongs to that user.
pub(crate) fn directory_of_server_user() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    if is_root() {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(USER);
            let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then_some((user, group))
        });
        let (user, group) = entry.unwrap_or_else(|| panic!("there is no user {USER}; {INSTALL}"));
        chown(directory.path(), Some(user), Some(group)).expect("root may");
        let owner = fs::metadata(directory.path()).expect("it is there").uid();
        assert_eq!(owner, user);
    }
    directory
}

fn children(process: Pid) -> Vec<Pid> {
    let pid = process.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace();
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}

/// Whether a process is there and has not ended; the watcher has not taken note of its end yet.
pub(crate) fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
