//! Another program on the same locks.

use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::process::{Child, ChildStdout, Command, Stdio};

use guard_core::SlotName;

use super::Database;
use crate::daemon::Daemon;

/// A client of the database that stays connected. It is killed when this is dropped.
#[derive(Debug)]
pub struct Client<D: Database> {
    process: Child,
    from: BufReader<ChildStdout>,
    id: String,
    database: PhantomData<D>,
}

impl<D: Database> Client<D> {
    /// Starts a client of a server.
    #[must_use]
    pub fn start(server: &Daemon<D>) -> Self {
        Self::of(D::client(server))
    }

    /// Starts a client as `command` says.
    ///
    /// # Panics
    ///
    /// When it does not start.
    #[must_use]
    pub fn of(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let from = BufReader::new(process.stdout.take().unwrap());
        let mut this = Self {
            process,
            from,
            id: String::new(),
            database: PhantomData,
        };
        this.id = this.ask(D::OWN_ID);
        this
    }

    /// The id of its session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a statement.
    ///
    /// # Panics
    ///
    /// When the client is gone.
    pub fn send(&mut self, statement: &str) {
        let to = self.process.stdin.as_mut().unwrap();
        writeln!(to, "{statement};").unwrap();
    }

    /// Waits for the one line that a statement answers.
    ///
    /// # Panics
    ///
    /// When the client is gone.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a statement and waits for its answer.
    pub fn ask(&mut self, statement: &str) -> String {
        self.send(statement);
        self.answer()
    }

    /// Takes the slot's lock if it is free; answers whether it did.
    pub fn lock(&mut self, slot: &SlotName) -> bool {
        self.ask(&D::try_lock(slot)) == "1"
    }

    /// Frees the slot's lock; answers whether it held it.
    pub fn unlock(&mut self, slot: &SlotName) -> bool {
        self.ask(&D::unlock(slot)) == "1"
    }
}

impl<D: Database> Drop for Client<D> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
