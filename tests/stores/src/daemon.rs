//! A server's process of one's own, and faults for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use guard_conformance::PATIENCE;

/// Starts the server in the background, tells its process id, and ends it when the pipe to this shell is
/// closed: on purpose, or because the test process is gone, however it ended.
const WATCHER: &str = r#""$@" >/dev/null 2>&1 </dev/null & server=$!
echo $server; read -r _
"#;

/// Ports that may be lost to somebody else between finding and using them.
const ATTEMPTS: usize = 10;

/// What kind of server a [`Daemon`] is.
pub trait Program: Sized {
    /// The server's name.
    const NAME: &'static str;

    /// How a shell ends the process `$server`.
    const END: &'static str = "kill -KILL $server";

    /// A port to try.
    fn port(&self) -> u16 {
        free_port()
    }

    /// The command that is the server, on the daemon's port and in its directory.
    fn command(daemon: &Daemon<Self>) -> Command;

    /// Whether a server answers on the daemon's port, and is this one.
    fn is_up(daemon: &Daemon<Self>) -> bool;

    /// The processes that stop with the server's first one.
    fn children(_first: Pid) -> Vec<Pid> {
        Vec::new()
    }
}

/// A server on a free port with a temporary directory; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Daemon<P: Program> {
    // Before the directory, which must outlive the server.
    running: Option<Running>,
    port: u16,
    pub(crate) program: P,
    directory: TempDir,
}

/// A server's process, and the shell that ends it when it is told to or left alone.
#[derive(Debug)]
struct Running {
    watcher: Child,
    server: Pid,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // An error would only say that it is gone already.
        let _ = self.watcher.wait();
    }
}

impl<P: Program> Daemon<P> {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub(crate) fn launch(program: P, directory: TempDir) -> Self {
        let mut this = Self {
            running: None,
            port: 0,
            program,
            directory,
        };
        for _ in 0..ATTEMPTS {
            this.port = this.program.port();
            if this.begin() {
                return this;
            }
        }
        panic!("{} does not start: {}", P::NAME, this.log());
    }

    /// Answers whether the server runs; otherwise its port is taken, or its arguments are wrong.
    fn begin(&mut self) -> bool {
        let server = P::command(self);
        // Shell and server get a session of their own, as under a service manager: a signal to the group of the
        // tests leaves the shell to its work, and Linux shares the processors out between sessions first.
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-c"])
            .arg(format!("{WATCHER}{}; wait $server", P::END));
        command.arg(format!("{}-watcher", P::NAME));
        command.arg(server.get_program()).args(server.get_args());
        let mut watcher = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The shell reports what it killed.
            .stderr(Stdio::null())
            .spawn()
            .expect("setsid and sh start");
        let mut pid = String::new();
        BufReader::new(watcher.stdout.take().expect("a pipe"))
            .read_line(&mut pid)
            .expect("the watcher tells the server's process id");
        let server = pid.trim().parse().ok().and_then(Pid::from_raw);
        let server = server.expect("a process id");
        self.running = Some(Running { watcher, server });

        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && is_alive(server) {
            if P::is_up(self) {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        false
    }

    /// The server's port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A path in the server's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The server's first process.
    pub(crate) fn pid(&self) -> Pid {
        self.running.as_ref().expect("the server runs").server
    }

    /// Kills the server: its memory is gone, its port refuses.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Kills the server and starts it again on the same port, with nothing in its memory.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let runs = self.begin();
        assert!(runs, "{} does not restart: {}", P::NAME, self.log());
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
        kill_process(self.pid(), signal).expect("the server is there");
        for process in P::children(self.pid()) {
            // One that has ended just now needs no signal.
            let _ = kill_process(process, signal);
        }
    }

    /// What the server has logged to the file `log`.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// What a command prints.
///
/// # Errors
///
/// What it prints when it fails.
///
/// # Panics
///
/// When it does not start: `install` says what is missing.
pub(crate) fn output(command: &mut Command, install: &str) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| {
        let program = Path::new(command.get_program()).display();
        panic!("`{program}` does not start ({error}); {install}")
    });
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
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

/// Whether a process is there and has not ended; the watcher has not taken note of its end yet.
fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
