//! Commands on one connection, within one operation's budget.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, LeaseToken, StoreError};
use redis::{
    Cmd, Connection, ConnectionInfo, ConnectionLike, FromRedisValue, RedisError, Value, cmd,
};

use crate::connector::Live;
use crate::error::{classify, is_answer, is_demoted, is_not_allowed, out_of_time};

/// The least time for reading an answer that is due.
const SHORTEST_READ: Duration = Duration::from_millis(1);

/// Why a command failed, by what it means for the connection.
pub(crate) enum Failure {
    /// The server answered with an error: the command has not taken effect, the connection is fine.
    Answer(RedisError),
    /// The connection, or what came over it, cannot be trusted any more; the command may have been
    /// executed, or may yet be.
    Connection(RedisError),
    /// The server is a replica now, so what it says of a token counts for nothing.
    Demoted,
    /// The command was not sent.
    NotSent(StoreError),
    /// The command was executed, but a failover may still undo it: too few replicas have it. The connection is
    /// fine.
    Unreplicated(StoreError),
}

impl Failure {
    /// What the guard is told.
    pub(crate) fn into_store_error(self, operation: &str) -> StoreError {
        match self {
            Self::Answer(error) => classify(operation, error),
            Self::Connection(error) => classify(operation, error).with_unknown_outcome(),
            Self::Demoted => {
                StoreError::transient(format!("{operation}: the server is no master any more"))
            }
            Self::NotSent(error) => error,
            Self::Unreplicated(error) => error.with_unknown_outcome(),
        }
    }

    /// Whether another server has the slot.
    pub(crate) fn is_misdirection(&self) -> bool {
        let redirects = |error: &RedisError| matches!(error.code(), Some("MOVED" | "ASK"));
        self.is_demotion() || matches!(self, Self::Answer(error) if redirects(error))
    }

    /// Whether too few replicas copy from the server: it may have been replaced, and not been told.
    pub(crate) fn lacks_replicas(&self) -> bool {
        match self {
            Self::Answer(error) => error.code() == Some("NOREPLICAS"),
            Self::Unreplicated(_) => true,
            Self::Connection(_) | Self::Demoted | Self::NotSent(_) => false,
        }
    }

    /// Whether the server is no master any more: another one is.
    pub(crate) fn is_demotion(&self) -> bool {
        match self {
            Self::Answer(error) => is_demoted(error),
            Self::Demoted => true,
            Self::Connection(_) | Self::NotSent(_) | Self::Unreplicated(_) => false,
        }
    }
}

/// One operation of the store, over however many tries.
pub(crate) struct Operation<'a> {
    pub(crate) name: &'static str,
    pub(crate) budget: Budget,
    /// The token that it may put into a slot.
    pub(crate) brings: Option<&'a LeaseToken>,
    /// Whether a try of it went unanswered: it may have been executed, or may yet be.
    pub(crate) unanswered: bool,
    /// Whether the next try goes to the node of a cluster that is only about to get the slot.
    pub(crate) asking: bool,
}

impl<'a> Operation<'a> {
    pub(crate) const fn new(
        name: &'static str,
        budget: Budget,
        brings: Option<&'a LeaseToken>,
    ) -> Self {
        Self {
            name,
            budget,
            brings,
            unanswered: false,
            asking: false,
        }
    }

    /// What the guard is told when the last try failed.
    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        let error = failure.into_store_error(self.name);
        if self.unanswered {
            // The last try may have a definite answer, the one before has none.
            error.with_unknown_outcome()
        } else {
            error
        }
    }
}

/// A connection, lent for one operation.
pub(crate) struct Session<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) budget: Budget,
    /// The server, where a command may have to be ended on another one.
    pub(crate) server: Option<Arc<ConnectionInfo>>,
    /// Whether an earlier try of the same operation went unanswered, and may have been executed.
    pub(crate) repeated: bool,
    /// Whether the server is only about to get the keys (a cluster's `ASK`), and has to be told before each
    /// command that we know.
    pub(crate) asking: bool,
    /// Whether the server may have become a replica without ending the connection.
    pub(crate) may_be_demoted: bool,
    /// Whether the server tells of changes of what is read here.
    pub(crate) tracked: bool,
    /// Whether the next command was sent already.
    sent: bool,
    /// The timeout that the connection's socket has now, where that is remembered.
    timeout: Option<&'a mut Option<Duration>>,
}

impl<'a> Session<'a> {
    pub(crate) const fn new(connection: &'a mut Connection, budget: Budget) -> Self {
        Self {
            connection,
            budget,
            server: None,
            repeated: false,
            asking: false,
            may_be_demoted: false,
            tracked: false,
            sent: false,
            timeout: None,
        }
    }

    /// A session on a connection of ours.
    pub(crate) const fn of(live: &'a mut Live, budget: Budget) -> Self {
        let mut session = Self::new(&mut live.connection, budget);
        session.timeout = Some(&mut live.timeout);
        session
    }

    /// A session whose first command was [sent](Self::send) in another one.
    pub(crate) const fn resumed(live: &'a mut Live, budget: Budget) -> Self {
        let mut session = Self::of(live, budget);
        session.sent = true;
        session
    }

    /// What scripts are told that read a slot again where that registers for its next change.
    pub(crate) const fn reads_again(&self) -> &'static str {
        if self.tracked { "1" } else { "0" }
    }

    /// Sends a command. What it answers is read by the first [`call`](Self::call) of a
    /// [resumed](Self::resumed) session.
    pub(crate) fn send(&mut self, command: &Cmd) -> Result<(), Failure> {
        self.prepare()?;
        self.connection
            .send_packed_command(&command.get_packed_command())
            .map_err(failure)
    }

    /// Sends a command and reads its answer within what is left of the budget.
    pub(crate) fn call<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Failure> {
        if self.asking {
            let allowed = self.exchange(&cmd("ASKING"))?;
            allowed.extract_error().map_err(failure)?;
        }
        let value = if std::mem::take(&mut self.sent) {
            self.receive()?
        } else {
            self.exchange(command)?
        };
        let value = value.extract_error().map_err(failure)?;
        redis::from_redis_value(value).map_err(|error| Failure::Connection(error.into()))
    }

    /// Makes sure that what the server has just said of a token is a master's word: a replica that was the
    /// master when the connection was opened may know less.
    pub(crate) fn confirm(&mut self) -> Result<(), Failure> {
        if self.may_be_demoted && !is_master(self)? {
            return Err(Failure::Demoted);
        }
        Ok(())
    }

    fn exchange(&mut self, command: &Cmd) -> Result<Value, Failure> {
        self.prepare()?;
        self.connection.req_command(command).map_err(failure)
    }

    /// Reads the answer to a command that was sent before.
    fn receive(&mut self) -> Result<Value, Failure> {
        // It is most likely there already, so even a budget that is spent allows a short look.
        let remaining = self.budget.remaining().max(SHORTEST_READ);
        self.limit(remaining)
            .map_err(|_| Failure::Connection(io::Error::from(io::ErrorKind::TimedOut).into()))?;
        self.connection.recv_response().map_err(failure)
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let remaining = self.budget.remaining();
        if remaining.is_zero() {
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        self.limit(remaining)
    }

    /// Bounds the next reads and writes on the socket. Most operations have the same budget, and so find the
    /// timeout set already.
    fn limit(&mut self, remaining: Duration) -> Result<(), Failure> {
        let timeout = rounded_down(remaining);
        if self.timeout.as_deref() == Some(&Some(timeout)) {
            return Ok(());
        }
        let set = || {
            self.connection.set_read_timeout(Some(timeout))?;
            self.connection.set_write_timeout(Some(timeout))
        };
        // The socket is unusable, but nothing of this command was sent.
        set().map_err(|error| Failure::NotSent(classify("preparing the connection", error)))?;
        if let Some(known) = &mut self.timeout {
            **known = Some(timeout);
        }
        Ok(())
    }
}

/// Asks the server for its role. One that does not tell is taken for a master.
pub(crate) fn is_master(session: &mut Session<'_>) -> Result<bool, Failure> {
    match session.call::<Vec<Value>>(&cmd("ROLE")) {
        Ok(role) => Ok(matches!(role.first(), Some(Value::BulkString(role)) if role == b"master")),
        Err(Failure::Answer(error)) if is_not_allowed(&error) => Ok(true),
        Err(failure) => Err(failure),
    }
}

/// A time that is not a sixteenth shorter.
fn rounded_down(time: Duration) -> Duration {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let beyond = (u64::BITS - nanos.leading_zeros()).saturating_sub(5);
    Duration::from_nanos(nanos >> beyond << beyond)
}

pub(crate) fn failure(error: RedisError) -> Failure {
    if is_answer(&error) {
        Failure::Answer(error)
    } else {
        Failure::Connection(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_down_by_less_than_a_sixteenth() {
        for nanos in [
            1,
            15,
            16,
            33,
            999_999,
            1_999_990_000,
            2_000_000_000,
            u64::MAX,
        ] {
            let (time, rounded) = (
                Duration::from_nanos(nanos),
                rounded_down(Duration::from_nanos(nanos)),
            );
            assert!(rounded <= time && time - rounded < time / 16 + Duration::from_nanos(1));
            assert!(!rounded.is_zero(), "zero is for ever");
        }
        let seconds = |seconds| rounded_down(Duration::from_secs_f64(seconds));
        assert_eq!(seconds(1.9999), seconds(1.98));
        assert!(rounded_down(Duration::MAX) < Duration::MAX);
    }
}
