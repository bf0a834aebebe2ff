//! One session, and its statements.

use std::thread;
use std::time::Duration;

use guard_core::{Budget, SlotName, StoreError};
use guard_session::{Failure, LOCK_SLICE, LockHolder, Session, SessionId, comment, within};

use crate::error::{NO_SUCH_THREAD, NOT_THE_OWNER, is, is_farewell, shared, unfit};
use crate::line::{Answer, Line};
use crate::name::{literal, lock_name};

/// So long the server bears with a session that asks for nothing. A held one is asked every few seconds.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a statement answers instead of a lock's state when its session is not its user's alone, …
const SHARED: &str = "-1";
/// … when its server is none whose locks exclude, …
const UNFIT: &str = "-2";
/// … or when it became such a one before the lock came.
const TOO_LATE: &str = "-3";

/// Whether the server takes writes: a read-only one is a replica, or a primary whose place another takes. The variable is a
/// number or a word, and is read anew wherever this stands in a statement.
const FIT: &str = "CAST(@@global.read_only AS CHAR) IN ('0', 'OFF')";

const PROBING: &str = "probing";

/// The attribute of a connection that operators read as its name.
pub(crate) const OWNER_ATTRIBUTE: &str = "program_name";

/// A variable of the session. One that has it already when it begins is not its user's alone.
const MARK: &str = "@sandbox_guard";

/// Begins the name of a lock that every session holds while it lives: who holds it is that session, whatever numbers
/// are given out again.
const OWN_LOCK: &str = "sandbox guard session ";

/// How long to wait for a session that was told to end, before looking again.
const ENDING: Duration = Duration::from_millis(1);

/// One session with the server: a connection and the server's thread for it.
pub struct MySqlSession {
    line: Line,
    /// The condition that this is still the same session: its number begins anew with the server, its mark may be
    /// copied by a proxy.
    same: String,
    id: SessionId,
}

impl MySqlSession {
    /// Learns who the session is, and makes its settings.
    pub(crate) async fn begin(mut line: Line) -> Result<Self, StoreError> {
        const BEGINNING: &str = "beginning a session";
        let mark = SessionId::new_mark();
        let who = format!(
            "{} SELECT ID, USER, HOST, RELEASE_ALL_LOCKS(), {MARK} IS NOT NULL, {FIT}, GET_LOCK({}, 0) \
             FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
            comment(&mark),
            own_lock(&mark)
        );
        let row = line.ask(BEGINNING, who).await;
        let row = row.map_err(Failure::into_bare_error)?.unwrap_or_default();
        let field = |index: usize| row.get(index).and_then(Option::as_deref);
        let (Some(number), Some(user), Some(host)) = (field(0), field(1), field(2)) else {
            return Err(StoreError::permanent("the server does not say who we are"));
        };
        if (field(3), field(4)) != (Some("0"), Some("0")) {
            return Err(shared());
        }
        if field(5) != Some("1") {
            return Err(unfit());
        }
        if field(6) != Some("1") {
            return Err(StoreError::transient(
                "the server gives the session no lock of its own",
            ));
        }
        let made = line.ask(BEGINNING, settings(&mark)).await;
        made.map_err(Failure::into_bare_error)?;
        Ok(Self {
            line,
            same: format!("({MARK} <=> '{mark}' AND CONNECTION_ID() = {number})"),
            id: session_id(number, Some(user), Some(host)).with_mark(mark),
        })
    }

    /// Begins a statement.
    fn comment(&self) -> String {
        comment(self.id.mark().unwrap_or_default())
    }

    fn ask(
        &mut self,
        operation: &str,
        statement: String,
        budget: Budget,
    ) -> Result<Answer, Failure> {
        let statement = format!("{} {statement}", self.comment());
        within(operation, budget, self.line.ask(operation, statement))
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
            "SELECT CASE WHEN NOT {same} OR IS_USED_LOCK({name}) <=> CONNECTION_ID() THEN {SHARED} \
             WHEN NOT {FIT} THEN {UNFIT} ELSE CASE GET_LOCK({name}, {time}) WHEN 0 THEN 0 \
             WHEN 1 THEN CASE WHEN {FIT} THEN 1 ELSE {TOO_LATE} END END END"
        );
        match self.value(operation, statement, budget)?.as_deref() {
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(UNFIT) => Err(Failure::Unfit(unfit())),
            Some(TOO_LATE) => Err(Failure::Ended(unfit())),
            Some(_) => Err(Failure::Answer(shared())),
            // Somebody is ending the session, or the server has no memory left.
            None => {
                let text = format!("{operation}: the server does not say whether it locked");
                Err(Failure::Ended(StoreError::transient(text)))
            }
        }
    }

    async fn proving(&mut self) -> Result<(), Failure> {
        let statement = format!(
            "{} SELECT CASE WHEN NOT {} THEN {SHARED} WHEN {FIT} THEN 1 ELSE {UNFIT} END",
            self.comment(),
            self.same
        );
        let row = self.line.ask(PROBING, statement).await?;
        let answer = row.and_then(|row| row.into_iter().next().flatten());
        match answer.as_deref() {
            Some("1") => Ok(()),
            Some(UNFIT) => Err(Failure::Unfit(unfit())),
            _ => Err(Failure::Unfit(shared())),
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
        let released = match self.value("unlocking", statement, budget) {
            Err(Failure::Ended(error)) if self.line.was_over() || is_farewell(&error) => {
                Err(Failure::Unfit(error))
            }
            released => released,
        }?;
        if released.as_deref() == Some(SHARED) {
            return Err(Failure::Unfit(shared()));
        }
        Ok(released.as_deref() == Some("1"))
    }

    fn probe(&mut self, budget: Budget) -> Result<(), Failure> {
        within(PROBING, budget, self.proving())
    }

    async fn probing(&mut self, _: Budget) -> Result<(), Failure> {
        self.proving().await
    }

    fn holder(&mut self, slot: &SlotName, budget: Budget) -> Result<Option<LockHolder>, Failure> {
        const ASKING: &str = "asking for the holder";
        let name = literal(&lock_name(slot));
        let statement = format!(
            "SELECT holder.id, USER, HOST, {FIT} FROM (SELECT IS_USED_LOCK({name}) AS id) AS holder \
             LEFT JOIN information_schema.PROCESSLIST AS list ON list.ID = holder.id"
        );
        let row = self.ask(ASKING, statement, budget)?.unwrap_or_default();
        let field = |index: usize| row.get(index).and_then(Option::as_deref);
        if field(3) != Some("1") {
            return Err(Failure::Unfit(unfit()));
        }
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

    fn end(
        &mut self,
        other: &SessionId,
        holding: Option<&SlotName>,
        budget: Budget,
    ) -> Result<bool, Failure> {
        const ENDING_IT: &str = "ending a session";
        let (number, account) = match other.as_str().split_once(' ') {
            Some((number, account)) => (number, Some(literal(account))),
            None => (other.as_str(), None),
        };
        let Ok(number) = number.parse::<u64>() else {
            return Ok(false);
        };
        let (target, look) = match other.mark() {
            // Who holds its lock is this very session, and no stranger's statement is under way there.
            Some(mark) => {
                let (lock, comment) = (own_lock(mark), comment(mark));
                let look = format!(
                    "SELECT COUNT(*), COALESCE(SUM(COMMAND = 'Sleep' OR INFO LIKE '{comment}%'), 0) \
                     FROM information_schema.PROCESSLIST WHERE ID = IS_USED_LOCK({lock})"
                );
                (format!("COALESCE(IS_USED_LOCK({lock}), 0)"), Some(look))
            }
            None => {
                let look = account.map(|account| {
                    format!(
                        "SELECT COUNT(*), 1 FROM information_schema.PROCESSLIST \
                         WHERE ID = {number} AND CONCAT(USER, '@', HOST) = {account}"
                    )
                });
                let target = match holding.map(|slot| literal(&lock_name(slot))) {
                    // `KILL` takes an expression, but no query. There is no connection 0.
                    Some(lock) => format!("IF(IS_USED_LOCK({lock}) <=> {number}, {number}, 0)"),
                    None => number.to_string(),
                };
                (target, look)
            }
        };
        let mut found = false;
        loop {
            // Its locks are free before it leaves the list. One that is hidden from us is only its number.
            if let Some(look) = &look {
                let row = self
                    .ask(ENDING_IT, look.clone(), budget)?
                    .unwrap_or_default();
                let field = |index: usize| row.get(index).and_then(Option::as_deref);
                match (field(0), field(1)) {
                    (Some("0"), _) => return Ok(found),
                    (_, Some("1")) => {}
                    // It is on its way.
                    _ if found => {}
                    _ => {
                        return Err(Failure::Answer(StoreError::transient(format!(
                            "{ENDING_IT}: connection {number} cannot be told to be this guard's alone, and is left alone"
                        ))));
                    }
                }
            }
            match self.ask(ENDING_IT, format!("KILL {target}"), budget) {
                Err(Failure::Answer(error)) if is(&error, NO_SUCH_THREAD) => return Ok(found),
                Err(Failure::Answer(error)) if is(&error, NOT_THE_OWNER) => {
                    let text = format!(
                        "{ENDING_IT}: another account's session is ended only with the right CONNECTION ADMIN \
                         (MySQL: CONNECTION_ADMIN; older: SUPER)"
                    );
                    let error = StoreError::permanent(text).with_source(error);
                    return Err(Failure::Answer(error));
                }
                answer => drop(answer?),
            }
            found = true;
            thread::sleep(ENDING.min(budget.remaining()));
        }
    }
}

/// The lock that the session with this mark holds.
fn own_lock(mark: &str) -> String {
    literal(&format!("{OWN_LOCK}{mark}"))
}

/// What every session sets at the server, where the server knows the setting: its mark, how long it may be idle, and
/// that no statement is ended because it waits.
fn settings(mark: &str) -> String {
    format!(
        "{} SET SESSION wait_timeout = {}, autocommit = 1, {MARK} = '{mark}' \
         /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */",
        comment(mark),
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
