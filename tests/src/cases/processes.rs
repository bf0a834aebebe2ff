//! Other processes on the same slots.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::fixture::{Fixture, PATIENCE, assert_free, assert_held, key};

/// A `lease_holder`: another process that does as it is told. It is killed when this is dropped.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn start(fixture: &Fixture<'_>, arguments: &[&str]) -> Self {
        let mut child = Self::command(fixture)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the lease_holder of this package starts");
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            to,
            from: BufReader::new(from),
        }
    }

    fn command(fixture: &Fixture<'_>) -> Command {
        let mut command = fixture
            .backend
            .another_process()
            .expect("the suite has asked");
        command.arg(&fixture.prefix);
        command
    }

    /// Tells the process to do something, and answers what it says when that is done.
    fn ask(&mut self, request: &str) -> String {
        writeln!(self.to, "{request}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A slot that another process holds is held, until it closes.
pub(crate) fn another_process_excludes_us_until_it_closes(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let mut other = Process::start(&fixture, &["hold", "agent", "a", "120000"]);
    assert_eq!(other.answer(), "held");
    assert_held(&guard, &key("a"));
    assert_eq!(other.ask("close"), "Released");
    assert_free(&guard, &key("a"));
}

/// SIGKILL leaves no time to close; the TTL frees the slot, and not before.
pub(crate) fn a_killed_process_frees_its_slot_at_its_ttl(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let ttl = Duration::from_secs(2);
    let started = Instant::now();
    let mut other = Process::start(&fixture, &["hold", "agent", "a", "2000"]);
    assert_eq!(other.answer(), "held");
    let held = Instant::now();
    other.kill();
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    assert!(lease.is_held());
    assert!(started.elapsed() >= ttl);
    // At the TTL, not at some later clean-up; room for a noisy machine.
    assert!(held.elapsed() < ttl + Duration::from_secs(4));
}

/// SIGKILL leaves no time to close; the end of the process's session frees the slot, long before its TTL.
pub(crate) fn a_killed_process_frees_its_slot_at_once(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard();
    let mut other = Process::start(&fixture, &["hold", "agent", "a", "120000"]);
    assert_eq!(other.answer(), "held");
    assert_held(&guard, &key("a"));
    let killed = Instant::now();
    other.kill();
    let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
    assert!(lease.is_held());
    // Room for a noisy machine.
    assert!(killed.elapsed() < Duration::from_secs(4));
}

/// Processes that each count up a number in a file, under the guard, lose no count.
pub(crate) fn no_update_is_lost_between_processes(backend: &dyn Backend) {
    const PROCESSES: u64 = 3;
    const UPDATES: u64 = 60;
    let fixture = Fixture::new(backend);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    fs::write(&file, "0").unwrap();
    let (path, updates) = (file.to_str().unwrap(), UPDATES.to_string());
    let arguments = ["count", "agent", "a", "120000", path, &updates];
    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|_| Process::start(&fixture, &arguments))
        .collect();
    for process in &mut processes {
        assert_eq!(process.answer(), "counted");
    }
    let count: u64 = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(count, PROCESSES * UPDATES);
}
