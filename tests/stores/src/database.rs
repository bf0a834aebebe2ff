//! Databases whose sessions carry the locks, as tests see them: one for all, and what each has to bring along.

mod backend;
mod client;
mod guard_builder;

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use guard_core::{ConfigError, LeaseStore, SandboxExecutionGuard, SlotName};

use crate::daemon::{Daemon, Program, output};
use guard_conformance::eventually;

pub use backend::DatabaseBackend;
pub use client::Client;
pub use guard_builder::GuardBuilder;

/// A database, and the SQL that asks it about its sessions and their locks. A further one joins with an
/// implementation of this.
pub trait Database: Program + Send + Sync + 'static {
    /// The guard on this database.
    type Guard: SandboxExecutionGuard + Clone + fmt::Debug + 'static;

    /// What addresses begin with.
    const SCHEME: &'static str;
    /// The user who may do everything, without a password.
    const ADMINISTRATOR: &'static str;
    /// The end of addresses.
    const DATABASE: &'static str;
    /// How its client is told a statement, instead of reading them.
    const EXECUTE: &'static str;
    /// How to install it.
    const INSTALL: &'static str;
    /// What the sessions of its client call themselves.
    const CLIENT: &'static str;

    /// All sessions, to select from: `id`; `owner`, which is what it calls itself; `waits`, for a lock; and
    /// `statement`, which is another for each statement.
    const SESSIONS: &'static str;
    /// Asks for the session's own `id`.
    const OWN_ID: &'static str;

    /// Settings that end idle sessions and long statements, within a second.
    const IMPATIENT: &'static [&'static str];
    /// The setting that has it listen on all addresses, of IPv6 too.
    const LISTEN_EVERYWHERE: &'static str;
    /// Addresses that cannot be read.
    const UNREADABLE: &'static [&'static str];

    /// Starts a server with settings of its own, such as `max_connections=10`.
    ///
    /// # Panics
    ///
    /// When it cannot be started: a machine without the database must not read as one where the tests pass.
    fn start_with(settings: &[&str]) -> Daemon<Self>;

    /// A client of the server that prints bare values as soon as it has them.
    fn client(server: &Daemon<Self>) -> Command;

    /// Builds a guard.
    ///
    /// # Errors
    ///
    /// Those of the store's own builder.
    fn build(builder: GuardBuilder<Self>) -> Result<Self::Guard, ConfigError>;

    /// What the store's own builder for an address shows of itself.
    fn shown(address: &str) -> String;

    /// The store of a guard.
    fn store(guard: &Self::Guard) -> Arc<dyn LeaseStore>;

    /// Takes the slot's lock if it is free; answers 1 or 0.
    fn try_lock(slot: &SlotName) -> String;

    /// Waits for the slot's lock; answers 1.
    fn lock(slot: &SlotName) -> String;

    /// Frees the slot's lock; answers 1 if it was the session's.
    fn unlock(slot: &SlotName) -> String;

    /// Asks for the session that holds the slot's lock; answers nothing if it is free.
    fn holder(slot: &SlotName) -> String;

    /// How operators call a session of the administrator, or how that begins.
    fn description(session: &str) -> String;

    /// Ends a session.
    fn end(session: &str) -> String;

    /// Makes the server read-only, as a primary is whose place another takes, or lets it take writes again. Live
    /// sessions stay.
    fn read_only(server: &Daemon<Self>, read_only: bool);

    /// How many connections the server has counted that were given up before their login; zero where it counts none.
    fn aborted_handshakes(server: &Daemon<Self>) -> usize;

    /// Creates a user without rights who may have so many sessions.
    fn create_user(name: &str, password: &str, sessions: u32) -> String;

    /// The address of a server, or of what stands before it, on `port`.
    #[must_use]
    fn url(port: u16) -> String {
        Self::address(Self::ADMINISTRATOR, port, Self::DATABASE)
    }

    /// The address for a user, who may have a password (`user:password`), and a database (`/database`).
    #[must_use]
    fn address(user: &str, port: u16, database: &str) -> String {
        format!("{}://{user}@127.0.0.1:{port}{database}", Self::SCHEME)
    }
}

impl<D: Database> Daemon<D> {
    /// Starts a server.
    #[must_use]
    pub fn start() -> Self {
        D::start_with(&[])
    }

    /// Starts a server with settings of its own.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        D::start_with(settings)
    }

    /// The server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        D::url(self.port())
    }

    /// Starts building a guard on the server.
    pub fn builder(&self) -> GuardBuilder<D> {
        GuardBuilder::new(self.url())
    }

    /// Runs SQL with the database's client; answers what it prints, without the last line's end.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn sql(&self, sql: &str) -> String {
        match self.try_sql(sql) {
            Ok(output) => output.trim_end().to_owned(),
            Err(error) => panic!("{} {sql:?}: {error}", D::CLIENT),
        }
    }

    pub(crate) fn try_sql(&self, sql: &str) -> Result<String, String> {
        output(D::client(self).args([D::EXECUTE, sql]), D::INSTALL)
    }

    /// How many sessions are in this state.
    ///
    /// # Panics
    ///
    /// When the condition is wrong.
    #[must_use]
    pub fn sessions(&self, condition: &str) -> usize {
        let count = self.ask_sessions("COUNT(*)", condition);
        count.parse().expect("a number")
    }

    /// Selects from the sessions that are in this state.
    #[must_use]
    pub fn ask_sessions(&self, what: &str, condition: &str) -> String {
        self.sql(&format!(
            "SELECT {what} FROM {} WHERE {condition}",
            D::SESSIONS
        ))
    }

    /// The session that holds the slot's lock.
    #[must_use]
    pub fn holder(&self, slot: &SlotName) -> Option<String> {
        let session = self.sql(&D::holder(slot));
        (!session.is_empty()).then_some(session)
    }

    /// Ends a session, and waits until it is gone.
    pub fn end(&self, session: &str) {
        // One that has ended just now needs no end.
        let _ = self.try_sql(&D::end(session));
        let this = format!("id = {session}");
        eventually("the session is gone", || self.sessions(&this) == 0);
    }
}
