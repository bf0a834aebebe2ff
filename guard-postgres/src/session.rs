//! One session, and its statements.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use guard_core::{Budget, SlotName, StoreError};
use guard_session::{
    Failure, LOCK_SLICE, LockHolder, Process, Session, SessionId, comment, within,
};
use parking_lot::Mutex;
use tokio_postgres::error::SqlState;

use crate::error::{is, shared, unfit};
use crate::line::Line;
use crate::number::lock_number;
use crate::owner;
use crate::timeouts::settings;

/// When a backend was started, in microseconds: with its process id it names the session for good.
const STARTED: &str = "(extract(epoch FROM backend_start) * 1000000)::bigint";

/// The advisory locks of this backend.
const HELD: &str = "(SELECT count(*) FROM pg_locks \
                    WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted)";

/// How long to wait for a backend that was told to end, before looking again.
const ENDING: Duration = Duration::from_millis(1);

/// A setting of the session that carries its mark. A backend that has it already when a session begins, or another
/// one later, is not its user's alone.
const MARK: &str = "sandbox_guard.mark";

/// Whether the server takes no writes. What a standby, or a server that was made read-only because another took its
/// place, gives out as a lock excludes nobody. In recovery every transaction is read-only.
const UNFIT: &str = "(current_setting('transaction_read_only') = 'on')";

const PROBING: &str = "probing";

/// What holds a lock without a session.
const PREPARED: &str = "a prepared transaction";

/// What statements answer instead of a value.
const IS_SHARED: &str = "shared";
const IS_UNFIT: &str = "unfit";

/// The identities of the open sessions.
pub(crate) type Backends = Arc<Mutex<HashSet<SessionId>>>;

/// One session with PostgreSQL: a connection and its backend.
pub struct PostgresSession {
    line: Line,
    /// The condition that this is still the same backend, and nobody has reset it.
    same: String,
    id: SessionId,
    backends: Backends,
    process: Process,
}

impl PostgresSession {
    /// Learns who the backend is, and makes its settings.
    pub(crate) async fn begin(line: Line, backends: &Backends) -> Result<Self, StoreError> {
        const BEGINNING: &str = "beginning a session";
        let mark = SessionId::new_mark();
        let who = format!(
            "{} SELECT pid, {STARTED}, {HELD}, {UNFIT}, coalesce(current_setting('{MARK}', true), '') \
             FROM pg_stat_get_activity(pg_backend_pid()); {}; SELECT set_config('{MARK}', '{mark}', false)",
            comment(&mark),
            settings(LOCK_SLICE)
        );
        let row = line.ask(BEGINNING, &who).await;
        let malformed = || StoreError::permanent("the server does not say who it is");
        let row = row
            .map_err(Failure::into_bare_error)?
            .ok_or_else(malformed)?;
        let number = |index| row.get(index).and_then(|text| text.parse::<i64>().ok());
        let (Some(backend), Some(started), Some(held)) = (number(0), number(1), number(2)) else {
            return Err(malformed());
        };
        if row.get(3) != Some("f") {
            return Err(unfit());
        }
        let name = SessionId::new(format!("{backend}/{started}"));
        let is_marked = row.get(4).is_none_or(|mark| !mark.is_empty());
        if held > 0 || is_marked || !backends.lock().insert(name.clone()) {
            return Err(shared());
        }
        let same = format!(
            "(pg_backend_pid() = {backend} AND coalesce(current_setting('{MARK}', true), '') = '{mark}')"
        );
        Ok(Self {
            line,
            same,
            id: name.with_mark(mark),
            backends: backends.clone(),
            process: Process::this(),
        })
    }

    async fn proving(&self) -> Result<(), Failure> {
        self.asking(PROBING, true, "true").await.map(drop)
    }

    /// Asks for `value` if this is the session that it was, with a server that is fit where that is `needed`.
    async fn asking(
        &self,
        operation: &str,
        needed: bool,
        value: &str,
    ) -> Result<Option<String>, Failure> {
        if self.line.is_closed() {
            let text = format!("{operation}: the session has ended");
            return Err(Failure::Unfit(StoreError::transient(text)));
        }
        let unfit_if = if needed { UNFIT } else { "false" };
        let statement = format!(
            "{} SELECT CASE WHEN NOT {} THEN '{IS_SHARED}' WHEN {unfit_if} THEN '{IS_UNFIT}' \
             ELSE ({value})::text END",
            comment(self.mark()),
            self.same
        );
        let row = self.line.ask(operation, &statement).await?;
        match row.as_ref().and_then(|row| row.get(0)) {
            Some(IS_SHARED) => Err(Failure::Unfit(shared())),
            Some(IS_UNFIT) => Err(Failure::Unfit(unfit())),
            value => Ok(value.map(str::to_owned)),
        }
    }

    /// The same, within the budget.
    fn value(
        &self,
        operation: &str,
        needed: bool,
        value: &str,
        budget: Budget,
    ) -> Result<Option<String>, Failure> {
        within(operation, budget, self.asking(operation, needed, value))
    }

    fn mark(&self) -> &str {
        self.id.mark().unwrap_or_default()
    }

    /// Runs `lock`, an expression that answers whether it locked, if this is the session's own backend and
    /// carries no lock.
    fn take(&self, operation: &str, lock: &str, budget: Budget) -> Result<bool, Failure> {
        // Without the offset the inner query might be evaluated after the lock.
        let lock = format!(
            "SELECT CASE WHEN held = 0 THEN {lock} END FROM (SELECT {HELD} AS held OFFSET 0) AS this"
        );
        match self.value(operation, true, &lock, budget) {
            Ok(Some(locked)) => Ok(locked == "true"),
            Ok(None) => Err(Failure::Answer(shared())),
            // Another session would be shared, too.
            Err(Failure::Unfit(error)) if !error.is_transient() => Err(Failure::Answer(error)),
            Err(failure) => Err(failure),
        }
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
            // A session hears of its server's settings between two statements only.
            Ok(true) => match self.probe(budget) {
                Ok(()) => Ok(true),
                Err(failure) => Err(Failure::Ended(failure.into_bare_error())),
            },
            answer => answer,
        }
    }

    fn unlock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let unlock = format!("pg_advisory_unlock({})", lock_number(slot));
        let unlocked = self.value("unlocking", false, &unlock, budget)?;
        Ok(unlocked.as_deref() == Some("true"))
    }

    fn probe(&mut self, budget: Budget) -> Result<(), Failure> {
        within(PROBING, budget, self.proving())
    }

    async fn probing(&mut self, _: Budget) -> Result<(), Failure> {
        self.proving().await
    }

    fn vouch(&mut self, other: &SessionId, budget: Budget) -> Result<(), Failure> {
        let (Some((backend, started)), Some(mark)) = (parts(other), other.mark()) else {
            return self.probe(budget);
        };
        let statement = format!(
            "SELECT {} OR state = 'disabled' FROM pg_stat_activity WHERE pid = {backend} AND {STARTED} = {}",
            is_marked(mark),
            started.unwrap_or_default()
        );
        match self.value(PROBING, true, &statement, budget)?.as_deref() {
            Some("true") => Ok(()),
            Some(_) => Err(Failure::Unfit(shared())),
            None => Err(Failure::Answer(StoreError::transient(
                "a session has ended as soon as it began",
            ))),
        }
    }

    fn holder(&mut self, slot: &SlotName, budget: Budget) -> Result<Option<LockHolder>, Failure> {
        const ASKING: &str = "asking for the holder";
        let statement = format!(
            "{} SELECT {UNFIT}, locktype, pid, {STARTED}, application_name, client_addr \
             FROM (SELECT 1) AS this LEFT JOIN (pg_locks LEFT JOIN pg_stat_activity USING (pid)) ON \
             {} LIMIT 1",
            comment(self.mark()),
            is_lock(slot)
        );
        let row = within(ASKING, budget, self.line.ask(ASKING, &statement))?;
        let field = |index| row.as_ref().and_then(|row| row.get(index));
        if field(0) != Some("f") {
            return Err(Failure::Unfit(unfit()));
        }
        if field(1).is_none() {
            return Ok(None);
        }
        let Some(backend) = field(2) else {
            return Ok(Some(LockHolder {
                session: SessionId::new(PREPARED),
                owner: None,
                since: None,
                description: PREPARED.to_owned(),
            }));
        };
        // Of other roles' sessions not everybody is told more.
        let started = field(3).unwrap_or_default();
        let since = started.parse().ok().map(Duration::from_micros);
        let from = field(5).map(|host| format!(" from {host}"));
        Ok(Some(LockHolder {
            session: SessionId::new(format!("{backend}/{started}")),
            owner: field(4).filter(|name| !name.is_empty()).map(owner::decoded),
            since: since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)),
            description: format!("backend {backend}{}", from.unwrap_or_default()),
        }))
    }

    fn end(
        &mut self,
        other: &SessionId,
        holding: Option<&SlotName>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        const ENDING_IT: &str = "ending a session";
        let Some((backend, started)) = parts(other) else {
            return Err(Failure::Answer(StoreError::permanent(
                "the lock is held by a prepared transaction, which COMMIT PREPARED or ROLLBACK PREPARED ends",
            )));
        };
        // What runs there, or ran there last, is ours, or an operator wants it whosever it is.
        let ours = other.mark().map_or_else(|| "true".to_owned(), is_marked);
        let started = started.map_or_else(|| "IS NULL".to_owned(), |micros| format!("= {micros}"));
        let holds = holding.map_or_else(
            || "true".to_owned(),
            |slot| {
                format!(
                    "EXISTS (SELECT FROM pg_locks AS held WHERE held.pid = {backend} AND {})",
                    is_lock(slot)
                )
            },
        );
        // Its locks are free before it leaves the list.
        let statement = format!(
            "SELECT CASE WHEN {ours} THEN pg_terminate_backend(pid) ELSE false END \
             FROM pg_stat_activity WHERE pid = {backend} AND {STARTED} {started} AND {holds}"
        );
        let mut found = false;
        loop {
            let ended = self.value(ENDING_IT, true, &statement, budget);
            match ended
                .map_err(|failure| with_right(ENDING_IT, failure))?
                .as_deref()
            {
                None => return Ok(found),
                Some("true") => found = true,
                Some(_) if found => {}
                Some(_) => {
                    return Err(Failure::Answer(StoreError::transient(format!(
                        "{ENDING_IT}: backend {backend} cannot be told to be this guard's alone, and is left alone"
                    ))));
                }
            }
            thread::sleep(ENDING.min(budget.remaining()));
        }
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        if self.process.is_this() {
            self.backends.lock().remove(&self.id);
        }
    }
}

/// The condition that a statement is of the session with this mark.
fn is_marked(mark: &str) -> String {
    format!("starts_with(query, '{}')", comment(mark))
}

/// The condition that a row of `pg_locks` is the slot's lock, and that somebody has it.
fn is_lock(slot: &SlotName) -> String {
    let number = lock_number(slot).cast_unsigned();
    let (high, low) = (number >> 32, number & u64::from(u32::MAX));
    format!(
        "locktype = 'advisory' AND classid = {high} AND objid = {low} AND objsubid = 1 AND granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
}

/// A session's backend, and when it was started, if that was told.
fn parts(id: &SessionId) -> Option<(i32, Option<i64>)> {
    let (backend, started) = id.as_str().split_once('/')?;
    Some((backend.parse().ok()?, started.parse().ok()))
}

/// Names the right that is missing.
fn with_right(operation: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Answer(error) if is(&error, &SqlState::INSUFFICIENT_PRIVILEGE) => {
            let text = format!(
                "{operation}: another role's session is ended only by members of that role or of `pg_signal_backend`, \
                 and a superuser's only by superusers"
            );
            Failure::Answer(StoreError::permanent(text).with_source(error))
        }
        failure => failure,
    }
}
