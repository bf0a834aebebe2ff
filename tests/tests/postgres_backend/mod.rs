//! The suite's view of a real PostgreSQL server.

#![allow(unreachable_pub, reason = "each target is a crate of its own")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guard_conformance::postgres_server::PostgresServer;
use guard_conformance::{Backend, Foreign, eventually};
use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};
use guard_postgres::{PostgresGuardBuilder, PostgresSandboxExecutionGuard, lock_number};

/// A way to build guards. The fields are in the order in which they go.
pub struct Postgres {
    name: &'static str,
    customise: fn(PostgresGuardBuilder) -> PostgresGuardBuilder,
    guard: PostgresSandboxExecutionGuard,
    /// The `psql`s that hold slots, each with the token that it stands for.
    foreign: Mutex<HashMap<String, (String, Session)>>,
    server: PostgresServer,
}

impl Postgres {
    /// Starts a server and makes guards on it as `customise` says.
    pub fn start(
        name: &'static str,
        customise: fn(PostgresGuardBuilder) -> PostgresGuardBuilder,
    ) -> Self {
        let server = PostgresServer::start();
        let guard = customise(PostgresSandboxExecutionGuard::builder(&server.url()));
        Self {
            name,
            customise,
            guard: guard.build().expect("the server that was just started"),
            foreign: Mutex::default(),
            server,
        }
    }
}

impl Backend for Postgres {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.guard.store().clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = PostgresSandboxExecutionGuard::builder(&self.server.url()).settings(config);
        Ok(Arc::new((self.customise)(builder).build()?))
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

/// `psql` is the program that is not ours.
impl Foreign for Postgres {
    fn set(&self, slot: &SlotName, token: &str, _: Option<Duration>) {
        let mut session = Session::start(&self.server);
        let lock = format!("SELECT pg_try_advisory_lock({})", lock_number(slot));
        assert_eq!(session.ask(&lock), "t", "the slot is free");
        let holder = (token.to_owned(), session);
        self.foreign
            .lock()
            .unwrap()
            .insert(slot.to_string(), holder);
    }

    fn delete(&self, slot: &SlotName) {
        let backends = self.server.sql(&holders(slot));
        for backend in backends.lines() {
            let end = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = {backend}"
            );
            // Whoever takes the lock next is not meant.
            eventually("the holder is gone", || self.server.sql(&end).is_empty());
        }
        self.foreign.lock().unwrap().remove(slot.as_str());
    }

    fn plant_data(&self, _: &SlotName) {
        panic!("a lock carries no data");
    }

    fn carries_data(&self, _: &SlotName) -> bool {
        false
    }

    fn carries(&self, slot: &SlotName, token: &str) -> bool {
        let holders = self.server.sql(&holders(slot));
        match self.foreign.lock().unwrap().get(slot.as_str()) {
            Some((foreign, session)) => foreign == token && holders == session.backend,
            None => !holders.is_empty(),
        }
    }

    fn ttl(&self, _: &SlotName) -> Option<Duration> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        panic!("locks have no names")
    }
}

/// The backends that hold the lock of a slot.
fn holders(slot: &SlotName) -> String {
    let number = lock_number(slot).cast_unsigned();
    format!(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
         AND classid = {} AND objid = {}",
        number >> 32,
        number & u64::from(u32::MAX)
    )
}

/// A `psql` that stays connected. It is killed when this is dropped.
pub struct Session {
    psql: Child,
    from: BufReader<std::process::ChildStdout>,
    pub backend: String,
}

impl Session {
    pub fn start(server: &PostgresServer) -> Self {
        Self::of(server.psql_command())
    }

    /// Starts a `psql` as `command` says.
    pub fn of(mut command: Command) -> Self {
        let mut psql = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = BufReader::new(psql.stdout.take().unwrap());
        let backend = String::new();
        let mut this = Self {
            psql,
            from,
            backend,
        };
        this.backend = this.ask("SELECT pg_backend_pid()");
        this
    }

    /// Sends a statement.
    pub fn send(&mut self, statement: &str) {
        let to = self.psql.stdin.as_mut().unwrap();
        writeln!(to, "{statement};").unwrap();
    }

    /// Waits for the one line that a statement answers.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, statement: &str) -> String {
        self.send(statement);
        self.answer()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
