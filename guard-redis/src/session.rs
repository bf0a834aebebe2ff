//! Commands on one connection, within one operation's budget.

use guard_core::{Budget, StoreError};
use redis::{Cmd, Connection, ConnectionLike, FromRedisValue, RedisError};

use crate::error::{classify, is_answer, out_of_time};

/// Why a command failed, by what it means for the connection.
pub(crate) enum Failure {
    /// The server answered with an error: the command has not taken effect, the connection is fine.
    Answer(RedisError),
    /// The connection, or what came over it, cannot be trusted any more; the command may have been
    /// executed, or may yet be.
    Connection(RedisError),
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
            Self::NotSent(error) => error,
            Self::Unreplicated(error) => error.with_unknown_outcome(),
        }
    }
}

/// A connection, lent for one operation.
pub(crate) struct Session<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) budget: Budget,
    /// Whether an earlier try of the same operation went unanswered, and may have been executed.
    pub(crate) repeated: bool,
}

impl<'a> Session<'a> {
    pub(crate) const fn new(connection: &'a mut Connection, budget: Budget) -> Self {
        Self {
            connection,
            budget,
            repeated: false,
        }
    }

    /// Sends a command and reads its answer within what is left of the budget.
    pub(crate) fn call<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Failure> {
        let remaining = self.budget.remaining();
        if remaining.is_zero() {
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        self.limit(Some(remaining))?;
        let value = self.connection.req_command(command).map_err(failure)?;
        let value = value.extract_error().map_err(failure)?;
        redis::from_redis_value(value).map_err(|error| Failure::Connection(error.into()))
    }

    /// Bounds the next reads and writes on the socket.
    pub(crate) fn limit(&self, timeout: Option<std::time::Duration>) -> Result<(), Failure> {
        let set = || {
            self.connection.set_read_timeout(timeout)?;
            self.connection.set_write_timeout(timeout)
        };
        // The socket is unusable, but nothing of this command was sent.
        set().map_err(|error| Failure::NotSent(classify("preparing the connection", error)))
    }
}

pub(crate) fn failure(error: RedisError) -> Failure {
    if is_answer(&error) {
        Failure::Answer(error)
    } else {
        Failure::Connection(error)
    }
}
