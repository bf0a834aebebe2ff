//! The suite's view of a real MariaDB server.

#![allow(unreachable_pub, reason = "each target is a crate of its own")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guard_conformance::mariadb_server::MariaDbServer;
use guard_conformance::{Backend, Foreign, eventually};
use guard_core::{ConfigError, GuardConfig, LeaseStore, SandboxExecutionGuard, SlotName};
use guard_mysql::{MySqlGuardBuilder, MySqlSandboxExecutionGuard, lock_name};

/// A way to build guards. The fields are in the order in which they go.
pub struct MariaDb {
    name: &'static str,
    customise: fn(MySqlGuardBuilder) -> MySqlGuardBuilder,
    guard: MySqlSandboxExecutionGuard,
    /// The clients that hold slots, each with the token that it stands for.
    foreign: Mutex<HashMap<String, (String, Session)>>,
    server: MariaDbServer,
}

impl MariaDb {
    /// Starts a server and makes guards on it as `customise` says.
    pub fn start(
        name: &'static str,
        customise: fn(MySqlGuardBuilder) -> MySqlGuardBuilder,
    ) -> Self {
        let server = MariaDbServer::start();
        let guard = customise(MySqlSandboxExecutionGuard::builder(&server.url()));
        Self {
            name,
            customise,
            guard: guard.build().expect("the server that was just started"),
            foreign: Mutex::default(),
            server,
        }
    }
}

impl Backend for MariaDb {
    fn name(&self) -> &str {
        self.name
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.guard.store().clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        let builder = MySqlSandboxExecutionGuard::builder(&self.server.url()).settings(config);
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

/// The `mariadb` client is the program that is not ours.
impl Foreign for MariaDb {
    fn set(&self, slot: &SlotName, token: &str, _: Option<Duration>) {
        let mut session = Session::start(&self.server);
        assert!(session.lock(&lock_name(slot)), "the slot is free");
        let holder = (token.to_owned(), session);
        self.foreign
            .lock()
            .unwrap()
            .insert(slot.to_string(), holder);
    }

    fn delete(&self, slot: &SlotName) {
        let holder = self.server.sql(&holder(slot));
        if holder != "NULL" {
            // Whoever takes the lock next is not meant.
            end(&self.server, &holder);
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
        let holder = self.server.sql(&holder(slot));
        match self.foreign.lock().unwrap().get(slot.as_str()) {
            Some((foreign, session)) => foreign == token && holder == session.number,
            None => holder != "NULL",
        }
    }

    fn ttl(&self, _: &SlotName) -> Option<Duration> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        panic!("locks are not listed")
    }
}

/// Asks for the number of the session that holds the lock of a slot.
pub fn holder(slot: &SlotName) -> String {
    format!("SELECT IS_USED_LOCK({})", literal(&lock_name(slot)))
}

/// A text without anything that needs an escape.
pub fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 X'{digits}'")
}

/// Ends a session, and waits until it is gone.
pub fn end(server: &MariaDbServer, number: &str) {
    // One that has ended just now needs no end.
    let _ = server.try_sql(&format!("KILL {number}"));
    let there = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {number}");
    eventually("the session is gone", || server.sql(&there) == "0");
}

/// A `mariadb` client that stays connected. It is killed when this is dropped.
pub struct Session {
    client: Child,
    from: BufReader<std::process::ChildStdout>,
    pub number: String,
}

impl Session {
    pub fn start(server: &MariaDbServer) -> Self {
        let mut client = server
            .client_command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = BufReader::new(client.stdout.take().unwrap());
        let number = String::new();
        let mut this = Self {
            client,
            from,
            number,
        };
        this.number = this.ask("SELECT CONNECTION_ID()");
        this
    }

    /// Sends a statement.
    pub fn send(&mut self, statement: &str) {
        let to = self.client.stdin.as_mut().unwrap();
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

    /// Takes a lock if it is free; answers whether it did.
    pub fn lock(&mut self, name: &str) -> bool {
        self.ask(&format!("SELECT GET_LOCK({}, 0)", literal(name))) == "1"
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}
