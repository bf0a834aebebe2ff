//! One session, and its statements.

use std::fmt::Write as _;
use std::mem;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use guard_core::{Budget, SlotName, StoreError};
use guard_session::{Failure, LOCK_SLICE, LockHolder, Session, SessionId, wait};
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Row, Value};
use rand::TryRngCore as _;
use rand::rngs::OsRng;
use tokio::runtime::Handle;

use crate::database::IDLE_TIMEOUT;
use crate::error::{NO_SUCH_THREAD, failure, is, over, shared};
use crate::name::lock_name;

/// What a statement answers instead of a lock's state when its session is not its user's alone.
const SHARED: &str = "-1";

/// The attribute of a connection that operators read as its name.
pub(crate) const OWNER_ATTRIBUTE: &str = "program_name";

/// A variable of the session. One that has it already when it begins is not its user's alone.
const MARK: &str = "@sandbox_guard";

/// How long to wait for a session that was told to end, before looking again.
const ENDING: Duration = Duration::from_millis(1);

/// One session with the server: a connection and the server's thread for it.
pub struct MySqlSession {
    state: State,
    /// The condition that this is still the same session: its number begins anew with the server, its mark may be
    /// copied by a proxy.
    same: String,
    id: SessionId,
    runtime: Handle,
}

/// The first row of an answer.
type Answer = Option<Vec<Option<String>>>;
/// A statement under way, which keeps the connection until it is answered.
type Statement = Pin<Box<dyn Future<Output = (Conn, mysql_async::Result<Answer>)> + Send>>;

/// The protocol knows one statement at a time: one that was not answered in time has to be, before the next.
enum State {
    Idle(Conn),
    Busy(Statement),
    Over,
}

impl MySqlSession {
    /// Learns who the session is, and makes its settings.
    pub(crate) fn begin(
        connection: Conn,
        runtime: Handle,
        budget: Budget,
    ) -> Result<Self, StoreError> {
        const BEGINNING: &str = "beginning a session";
        let who = format!(
            "SELECT ID, USER, HOST, RELEASE_ALL_LOCKS(), {MARK} IS NOT NULL, @@global.read_only \
             FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
        );
        // From the operating system: a generator of ours is copied when the process is forked.
        let mark = OsRng.try_next_u64().map_err(|error| {
            StoreError::transient("the operating system gives no random bits").with_source(error)
        })?;
        let mut state = State::Idle(connection);
        let mut ask = |statement| {
            state
                .ask(BEGINNING, statement, budget)
                .map_err(Failure::into_bare_error)
        };
        let row = ask(who)?.unwrap_or_default();
        let field = |index: usize| row.get(index).and_then(Option::as_deref);
        let (Some(number), Some(user), Some(host)) = (field(0), field(1), field(2)) else {
            return Err(StoreError::permanent("the server does not say who we are"));
        };
        if (field(3), field(4)) != (Some("0"), Some("0")) {
            return Err(shared());
        }
        if !matches!(field(5), Some("0" | "OFF")) {
            // Its locks are its own, and nobody else's.
            return Err(StoreError::transient(
                "the server is read-only, as replicas are, whose locks exclude nobody",
            ));
        }
        ask(settings(mark))?;
        Ok(Self {
            state,
            same: format!("({MARK} <=> {mark} AND CONNECTION_ID() = {number})"),
            id: session_id(number, Some(user), Some(host)),
            runtime,
        })
    }

    fn ask(
        &mut self,
        operation: &str,
        statement: String,
        budget: Budget,
    ) -> Result<Answer, Failure> {
        self.state.ask(operation, statement, budget)
    }

    /// Asks for one value.
    fn value(
        &mut self,
        operation: &str,
        statement: String,
        budget: Budget,
    ) -> Result<Option<String>, Failure> {
        let row = self.ask(operation, statement, budget)?;
        Ok(row.and_then(|row| row.into_iter().next().flatten()))
    }

    /// Asks for a slot's lock, if this is the session that it was and does not hold that lock already: it would get
    /// it twice.
    fn take(
        &mut self,
        operation: &str,
        slot: &SlotName,
        time: Duration,
        budget: Budget,
    ) -> Result<bool, Failure> {
        let (same, name, time) = (&self.same, literal(&lock_name(slot)), time.as_secs());
        let statement = format!(
            "SELECT CASE WHEN NOT {same} OR IS_USED_LOCK({name}) <=> CONNECTION_ID() \
             THEN {SHARED} ELSE GET_LOCK({name}, {time}) END"
        );
        match self.value(operation, statement, budget)?.as_deref() {
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(_) => Err(Failure::Answer(shared())),
            // Somebody is ending the session, or the server has no memory left.
            None => {
                let text = format!("{operation}: the server does not say whether it locked");
                Err(Failure::Ended(StoreError::transient(text)))
            }
        }
    }
}

impl Session for MySqlSession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn try_lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        self.take("locking", slot, Duration::ZERO, budget)
    }

    fn lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        self.take("waiting for a lock", slot, LOCK_SLICE, budget)
    }

    fn unlock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure> {
        let (same, name) = (&self.same, literal(&lock_name(slot)));
        let statement =
            format!("SELECT CASE WHEN {same} THEN RELEASE_LOCK({name}) ELSE {SHARED} END");
        let released = self.value("unlocking", statement, budget)?;
        if released.as_deref() == Some(SHARED) {
            return Err(Failure::Ended(shared()));
        }
        Ok(released.as_deref() == Some("1"))
    }

    fn probe(&mut self, budget: Budget) -> Result<(), Failure> {
        let statement = format!("SELECT {}", self.same);
        if self.value("probing", statement, budget)?.as_deref() == Some("1") {
            Ok(())
        } else {
            Err(Failure::Ended(shared()))
        }
    }

    fn holder(&mut self, slot: &SlotName, budget: Budget) -> Result<Option<LockHolder>, Failure> {
        const ASKING: &str = "asking for the holder";
        let name = literal(&lock_name(slot));
        let statement = format!(
            "SELECT holder.id, USER, HOST FROM (SELECT IS_USED_LOCK({name}) AS id) AS holder \
             LEFT JOIN information_schema.PROCESSLIST AS list ON list.ID = holder.id"
        );
        let row = self.ask(ASKING, statement, budget)?.unwrap_or_default();
        let field = |index: usize| row.get(index).and_then(Option::as_deref);
        let Some(number) = field(0) else {
            return Ok(None);
        };
        let statement = format!(
            "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs \
             WHERE PROCESSLIST_ID = {number} AND ATTR_NAME = '{OWNER_ATTRIBUTE}'"
        );
        let owner = match self.value(ASKING, statement, budget) {
            // The server does not tell everybody.
            Err(Failure::Answer(_)) => None,
            owner => owner?,
        };
        let from = match (field(1), field(2)) {
            (Some(user), Some(host)) => format!(" of {user}@{host}"),
            _ => String::new(),
        };
        Ok(Some(LockHolder {
            session: session_id(number, field(1), field(2)),
            owner,
            // The list tells since when a session does what it does only.
            since: None,
            description: format!("connection {number}{from}"),
        }))
    }

    fn end(&mut self, other: &SessionId, budget: Budget) -> Result<bool, Failure> {
        const ENDING_IT: &str = "ending a session";
        let (number, account) = match other.as_str().split_once(' ') {
            Some((number, account)) => (number, Some(literal(account))),
            None => (other.as_str(), None),
        };
        let Ok(number) = number.parse::<u64>() else {
            return Ok(false);
        };
        let look = account.map(|account| {
            format!(
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                 WHERE ID = {number} AND CONCAT(USER, '@', HOST) = {account}"
            )
        });
        let mut found = false;
        loop {
            // Its locks are free before it leaves the list. One that is hidden from us is only its number.
            if let Some(look) = &look
                && self.value(ENDING_IT, look.clone(), budget)?.as_deref() == Some("0")
            {
                return Ok(found);
            }
            match self.ask(ENDING_IT, format!("KILL {number}"), budget) {
                Err(Failure::Answer(error)) if is(&error, NO_SUCH_THREAD) => return Ok(found),
                answer => drop(answer?),
            }
            found = true;
            thread::sleep(ENDING.min(budget.remaining()));
        }
    }
}

impl Drop for MySqlSession {
    fn drop(&mut self) {
        // The client says goodbye in the background, and never on a runtime of the caller's.
        let state = mem::replace(&mut self.state, State::Over);
        self.runtime.spawn(async move { drop(state) });
    }
}

impl State {
    /// Sends a statement; answers the first row of its answer.
    fn ask(
        &mut self,
        operation: &str,
        statement: String,
        budget: Budget,
    ) -> Result<Answer, Failure> {
        if budget.remaining().is_zero() {
            return Err(Failure::out_of_time(operation));
        }
        if matches!(self, Self::Busy(_)) {
            // What a former statement answers so late is nobody's any more.
            self.finish(operation, budget)?.ok();
        }
        let Self::Idle(mut connection) = mem::replace(self, Self::Over) else {
            return Err(Failure::Ended(over(operation)));
        };
        *self = Self::Busy(Box::pin(async move {
            let row = connection.query_first(statement).await;
            (connection, row.map(|row| row.map(texts)))
        }));
        self.finish(operation, budget)?
    }

    /// Waits for the answer of the statement under way: the outer error if the session is not free for another
    /// one, the inner one if it is.
    fn finish(
        &mut self,
        operation: &str,
        budget: Budget,
    ) -> Result<Result<Answer, Failure>, Failure> {
        let Self::Busy(statement) = self else {
            return Err(Failure::Ended(over(operation)));
        };
        let Some((connection, answer)) = wait(statement, budget.deadline()) else {
            return Err(Failure::no_answer(operation));
        };
        let answer = answer.map_err(|error| failure(operation, error));
        *self = match answer {
            Ok(_) | Err(Failure::Answer(_)) => Self::Idle(connection),
            Err(failure) => {
                *self = Self::Over;
                return Err(failure);
            }
        };
        Ok(answer)
    }
}

/// What every session sets at the server, where the server knows the setting: its mark, how long it may be idle, and
/// that no statement is ended because it waits.
fn settings(mark: u64) -> String {
    format!(
        "SET SESSION wait_timeout = {}, autocommit = 1, {MARK} = {mark} \
         /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */",
        IDLE_TIMEOUT.as_secs()
    )
}

/// By what the server knows a session: its number, which begins anew when the server does, and where it comes from,
/// port included, which a server hides from accounts without `PROCESS` if the session is another account's.
fn session_id(number: &str, user: Option<&str>, host: Option<&str>) -> SessionId {
    match (user, host) {
        (Some(user), Some(host)) => SessionId::new(format!("{number} {user}@{host}")),
        _ => SessionId::new(number),
    }
}

/// A text as it is written in any mode of the server.
fn literal(text: &str) -> String {
    let mut literal = "_utf8mb4 X'".to_owned();
    for byte in text.bytes() {
        // Writing to a string does not fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal.push('\'');
    literal
}

fn texts(row: Row) -> Vec<Option<String>> {
    let text = |value: Value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    let values = row.unwrap_raw().into_iter();
    values.map(|value| value.and_then(text)).collect()
}
