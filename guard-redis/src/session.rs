//! Commands on one connection, within one operation's budget.

use std::io;
use std::time::Duration;

use guard_core::{Budget, StoreError};
use redis::{Cmd, Connection, ConnectionLike, FromRedisValue, RedisError, Value};

use crate::error::{classify, is_answer, out_of_time};

/// The least time for reading an answer that is due.
const SHORTEST_READ: Duration = Duration::from_millis(1);

/// Why a command failed, by what it means for the connection.
pub(crate) enum Failure {
    /// The server answered with an error: the command has not taken effect, the connection is fine.
    Answer(RedisError),
    /// The connection, or what came over it, cannot be trusted any more; the command may have been
    /// executed, or may yet be.
    Connection(RedisError),
    /// The command was not sent.
    NotSent(StoreError),
}

impl Failure {
    /// What the guard is told.
    pub(crate) fn into_store_error(self, operation: &str) -> StoreError {
        match self {
            Self::Answer(error) => classify(operation, error),
            Self::Connection(error) => classify(operation, error).with_unknown_outcome(),
            Self::NotSent(error) => error,
        }
    }
}

/// A connection, lent for one operation.
pub(crate) struct Session<'a> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) budget: Budget,
    /// Whether an earlier try of the same operation went unanswered, and may have been executed.
    pub(crate) repeated: bool,
    /// Whether the next command was sent already.
    sent: bool,
}

impl<'a> Session<'a> {
    pub(crate) const fn new(connection: &'a mut Connection, budget: Budget) -> Self {
        Self {
            connection,
            budget,
            repeated: false,
            sent: false,
        }
    }

    /// A session whose first command was [sent](Self::send) in another one.
    pub(crate) const fn resumed(connection: &'a mut Connection, budget: Budget) -> Self {
        let mut session = Self::new(connection, budget);
        session.sent = true;
        session
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
        let value = if std::mem::take(&mut self.sent) {
            self.receive()
        } else {
            self.prepare()?;
            self.connection.req_command(command).map_err(failure)
        }?;
        let value = value.extract_error().map_err(failure)?;
        redis::from_redis_value(value).map_err(|error| Failure::Connection(error.into()))
    }

    /// Reads the answer to a command that was sent before.
    fn receive(&mut self) -> Result<Value, Failure> {
        // It is most likely there already, so even a budget that is spent allows a short look.
        let remaining = self.budget.remaining().max(SHORTEST_READ);
        self.limit(Some(remaining))
            .map_err(|_| Failure::Connection(io::Error::from(io::ErrorKind::TimedOut).into()))?;
        self.connection.recv_response().map_err(failure)
    }

    fn prepare(&self) -> Result<(), Failure> {
        let remaining = self.budget.remaining();
        if remaining.is_zero() {
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        self.limit(Some(remaining))
    }

    /// Bounds the next reads and writes on the socket.
    pub(crate) fn limit(&self, timeout: Option<Duration>) -> Result<(), Failure> {
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
