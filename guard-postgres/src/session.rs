//! One session, and its statements.

use std::thread;
use std::time::{Duration, SystemTime};

use guard_core::{Budget, SlotName, StoreError};
use guard_session::{Failure, LOCK_SLICE, LockHolder, Session, SessionId, wait};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::database::{Backends, settings};
use crate::error::{failure, shared};
use crate::number::lock_number;

/// When a backend was started, in microseconds: with its process id it names the session for good.
const STARTED: &str = "(extract(epoch FROM backend_start) * 1000000)::bigint";

/// The advisory locks of this backend.
const HELD: &str = "(SELECT count(*) FROM pg_locks \
                    WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted)";

/// How long to wait for a backend that was told to end, before looking again.
const ENDING: Duration = Duration::from_millis(1);

/// One session with PostgreSQL: a connection and its backend.
pub struct PostgresSession {
    client: Client,
    backend: i32,
    id: SessionId,
    backends: Backends,
}

impl PostgresSession {
    /// Learns who the backend is, and makes its settings.
    pub(crate) fn begin(
        client: Client,
        backends: &Backends,
        budget: Budget,
    ) -> Result<Self, StoreError> {
        const BEGINNING: &str = "beginning a session";
        let who = format!(
            "SELECT pid, {STARTED}, {HELD}, pg_is_in_recovery() \
             FROM pg_stat_get_activity(pg_backend_pid()); {}",
            settings(LOCK_SLICE)
        );
        let row = ask(&client, BEGINNING, &who, budget).map_err(Failure::into_bare_error)?;
        let malformed = || StoreError::permanent("the server does not say who it is");
        let row = row.ok_or_else(malformed)?;
        let number = |index| row.get(index).and_then(|text| text.parse::<i64>().ok());
        let backend = number(0).and_then(|pid| i32::try_from(pid).ok());
        let (Some(backend), Some(started), Some(held)) = (backend, number(1), number(2)) else {
            return Err(malformed());
        };
        if row.get(3) == Some("t") {
            // Its locks are its own, and nobody else's.
            return Err(StoreError::transient(
                "the server is a standby, on which advisory locks exclude nobody",
            ));
        }
        let id = SessionId::new(format!("{backend}/{started}"));
        if held > 0 || !backends.lock().insert(id.clone()) {
            return Err(shared());
        }
        Ok(Self {
            client,
            backend,
            id,
            backends: backends.clone(),
        })
    }

    /// Runs `lock`, an expression that answers whether it locked, if this is the session's own backend and
    /// carries no lock.
    fn take(&self, operation: &str, lock: &str, budget: Budget) -> Result<bool, Failure> {
        let backend = self.backend;
        // Without the offset the inner query might be evaluated after the lock.
        let statement = format!(
            "SELECT CASE WHEN pid = {backend} AND held = 0 THEN {lock} END \
             FROM (SELECT pg_backend_pid() AS pid, {HELD} AS held OFFSET 0) AS this"
        );
        let row = ask(&self.client, operation, &statement, budget)?;
        match row.as_ref().and_then(|row| row.get(0)) {
            Some(locked) => Ok(locked == "t"),
            None => Err(Failure::Answer(shared())),
        }
    }

    /// Asks for one value.
    fn value(
        &self,
        operation: &str,
        statement: &str,
        budget: Budget,
    ) -> Result<Option<String>, Failure> {
        let row = ask(&self.client, operation, statement, budget)?;
        Ok(row.and_then(|row| row.get(0).map(str::to_owned)))
    }
}

impl Session for PostgresSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn try_lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let lock = format!("pg_try_advisory_lock({})", lock_number(slot));
        self.take("locking", &lock, budget)
    }

    fn lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let lock = format!("pg_advisory_lock({}) IS NOT NULL", lock_number(slot));
        match self.take("waiting for a lock", &lock, budget) {
            Err(Failure::Answer(error)) if is(&error, &SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            answer => answer,
        }
    }

    fn unlock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let (backend, number) = (self.backend, lock_number(slot));
        let statement = format!(
            "SELECT CASE WHEN pg_backend_pid() = {backend} THEN pg_advisory_unlock({number}) END"
        );
        match self.value("unlocking", &statement, budget)? {
            Some(unlocked) => Ok(unlocked == "t"),
            None => Err(Failure::Ended(shared())),
        }
    }

    fn probe(&mut self, budget: Budget) -> Result<(), Failure> {
        let backend = self.value("probing", "SELECT pg_backend_pid()", budget)?;
        if backend.is_some_and(|backend| backend.parse() == Ok(self.backend)) {
            Ok(())
        } else {
            Err(Failure::Ended(shared()))
        }
    }

    fn holder(&mut self, slot: &SlotName, budget: Budget) -> Result<Option<LockHolder>, Failure> {
        let number = lock_number(slot).cast_unsigned();
        let (high, low) = (number >> 32, number & u64::from(u32::MAX));
        let statement = format!(
            "SELECT pid, {STARTED}, application_name, client_addr \
             FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) \
             WHERE locktype = 'advisory' AND classid = {high} AND objid = {low} AND objsubid = 1 AND granted \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             LIMIT 1"
        );
        let row = ask(&self.client, "asking for the holder", &statement, budget)?;
        Ok(row.and_then(|row| {
            let backend = row.get(0)?;
            let started = row.get(1).and_then(|text| text.parse::<u64>().ok());
            let since = started.and_then(|micros| {
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros))
            });
            let from = row.get(3).map(|host| format!(" from {host}"));
            Some(LockHolder {
                session: SessionId::new(format!("{backend}/{}", started.unwrap_or_default())),
                owner: row
                    .get(2)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                since,
                description: format!("backend {backend}{}", from.unwrap_or_default()),
            })
        }))
    }

    fn end(&mut self, other: &SessionId, budget: Budget) -> Result<bool, Failure> {
        let parts = other.as_str().split_once('/');
        let numbers = parts.and_then(|(backend, started)| {
            Some((backend.parse::<i32>().ok()?, started.parse::<i64>().ok()?))
        });
        let Some((backend, started)) = numbers else {
            return Ok(false);
        };
        // Its locks are free before it leaves the list.
        let statement = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE pid = {backend} AND {STARTED} = {started}"
        );
        let mut found = false;
        loop {
            let ended = self.value("ending a session", &statement, budget)?;
            if ended.as_deref() == Some("0") {
                return Ok(found);
            }
            found = true;
            thread::sleep(ENDING.min(budget.remaining()));
        }
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        self.backends.lock().remove(&self.id);
    }
}

/// Sends statements in one message; answers the first row of their answer.
fn ask(
    client: &Client,
    operation: &str,
    statement: &str,
    budget: Budget,
) -> Result<Option<SimpleQueryRow>, Failure> {
    if budget.remaining().is_zero() {
        return Err(Failure::out_of_time(operation));
    }
    match wait(client.simple_query(statement), budget.deadline()) {
        Some(Ok(messages)) => Ok(messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })),
        Some(Err(error)) => Err(failure(operation, error)),
        None => Err(Failure::no_answer(operation)),
    }
}

fn is(error: &StoreError, state: &SqlState) -> bool {
    let source = std::error::Error::source(error);
    source
        .and_then(|source| source.downcast_ref::<tokio_postgres::Error>())
        .is_some_and(|error| error.code() == Some(state))
}
