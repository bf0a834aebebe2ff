//! Commands on one connection, within one operation's budget.

use std::sync::Arc;
use std::time::Duration;

use guard_core::{Budget, LeaseToken, StoreError};
use redis::{Cmd, FromRedisValue, RedisError, Value, cmd};

use crate::endpoint::Endpoint;
use crate::error::{classify, code, is_answer, is_demoted, is_not_allowed, out_of_time};
use crate::live::Live;
use crate::wire::Wire;

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
            Self::Answer(error) => code(error) == Some("NOREPLICAS"),
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
    wire: &'a mut dyn Wire,
    pub(crate) budget: Budget,
    /// The server, where a command may have to be ended on another one.
    pub(crate) server: Option<Arc<Endpoint>>,
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
}

impl<'a> Session<'a> {
    pub(crate) fn new(wire: &'a mut dyn Wire, budget: Budget) -> Self {
        Self {
            wire,
            budget,
            server: None,
            repeated: false,
            asking: false,
            may_be_demoted: false,
            tracked: false,
            sent: false,
        }
    }

    /// A session on a connection of ours.
    pub(crate) fn of(live: &'a mut Live, budget: Budget) -> Self {
        Self::new(&mut live.connection, budget)
    }

    /// A session whose first command was [sent](Self::send) in another one.
    pub(crate) fn resumed(live: &'a mut Live, budget: Budget) -> Self {
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
        if self.budget.remaining().is_zero() {
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        self.wire
            .send(&command.get_packed_command(), self.budget)
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

    /// Whether the server has ended the connection, or does not answer any more.
    pub(crate) fn is_hung_up(&mut self) -> bool {
        matches!(
            self.call::<Value>(&cmd("PING")),
            Err(Failure::Connection(_))
        )
    }

    fn exchange(&mut self, command: &Cmd) -> Result<Value, Failure> {
        self.send(command)?;
        self.wire.receive(self.budget).map_err(failure)
    }

    /// Reads the answer to a command that was sent before.
    fn receive(&mut self) -> Result<Value, Failure> {
        // It is most likely there already, so even a budget that is spent allows a short look.
        let budget = if self.budget.remaining() < SHORTEST_READ {
            Budget::new(SHORTEST_READ)
        } else {
            self.budget
        };
        self.wire.receive(budget).map_err(failure)
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

pub(crate) fn failure(error: RedisError) -> Failure {
    if is_answer(&error) {
        Failure::Answer(error)
    } else {
        Failure::Connection(error)
    }
}
