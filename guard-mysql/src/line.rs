//! One connection: what is asked over it, and how it is closed.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;

use guard_session::{Failure, Process};
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Row, Value};
use tokio::runtime::Handle;

use crate::error::{failure, over};

/// The first row of an answer.
pub(crate) type Answer = Option<Vec<Option<String>>>;
/// A statement under way, which keeps the connection until it is answered.
type Statement = Pin<Box<dyn Future<Output = (Conn, mysql_async::Result<Answer>)> + Send>>;

/// The protocol knows one statement at a time: one that was not answered in time has to be, before the next.
enum State {
    Idle(Conn),
    Busy(Statement),
    Over,
    /// The end of the connection was there before the last statement was sent.
    OverBefore,
}

/// A connection. Dropping it closes it without waiting.
pub(crate) struct Line {
    state: State,
    runtime: Handle,
    process: Process,
}

impl Line {
    /// To be called on the thread that moves the bytes.
    pub(crate) fn new(connection: Conn) -> Self {
        Self {
            state: State::Idle(connection),
            runtime: Handle::current(),
            process: Process::this(),
        }
    }

    /// Sends a statement; answers the first row of its answer. What is dropped before it is answered goes on, and is
    /// waited for by the next.
    pub(crate) async fn ask(
        &mut self,
        operation: &str,
        statement: String,
    ) -> Result<Answer, Failure> {
        self.state.asking(operation, statement).await
    }

    /// Whether the end of the connection was there before the last statement was sent.
    pub(crate) const fn was_over(&self) -> bool {
        matches!(self.state, State::OverBefore)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let state = mem::replace(&mut self.state, State::Over);
        if self.process.is_this() {
            // The client says goodbye in the background, and never on a runtime of the caller's.
            self.runtime.spawn(async move { drop(state) });
        } else {
            // A goodbye on the socket would be the parent's.
            mem::forget(state);
        }
    }
}

impl State {
    async fn asking(&mut self, operation: &str, statement: String) -> Result<Answer, Failure> {
        if matches!(self, Self::Busy(_)) {
            // What a former statement answers so late is nobody's any more.
            self.finishing(operation).await?.ok();
        }
        let Self::Idle(mut connection) = mem::replace(self, Self::Over) else {
            return Err(Failure::Unfit(over(operation)));
        };
        *self = Self::Busy(Box::pin(async move {
            let row = connection.query_first(statement).await;
            (connection, row.map(|row| row.map(texts)))
        }));
        self.finishing(operation).await?
    }

    /// Waits for the answer of the statement under way: the outer error if the session is not free for another
    /// one, the inner one if it is.
    async fn finishing(&mut self, operation: &str) -> Result<Result<Answer, Failure>, Failure> {
        let Self::Busy(statement) = self else {
            return Err(Failure::Unfit(over(operation)));
        };
        let mut at_once = true;
        let (connection, answer) = poll_fn(|context| {
            let polled = statement.as_mut().poll(context);
            at_once &= polled.is_ready();
            polled
        })
        .await;
        let answer = answer.map_err(|error| failure(operation, error));
        *self = match answer {
            Ok(_) | Err(Failure::Answer(_)) => Self::Idle(connection),
            Err(failure) => {
                // No answer is there at once.
                *self = if at_once {
                    Self::OverBefore
                } else {
                    Self::Over
                };
                return Err(failure);
            }
        };
        Ok(answer)
    }
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
