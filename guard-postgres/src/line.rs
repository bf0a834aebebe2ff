//! One connection: what is asked over it, and how it is closed.

use std::sync::atomic::{AtomicUsize, Ordering};

use guard_session::{Failure, Process};
use tokio::task::AbortHandle;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::error::failure;

/// A connection. Dropping it closes it without waiting.
pub(crate) struct Line {
    client: Client,
    /// Who moves the bytes, and would do so until the last answer has come.
    moving: AbortHandle,
    /// How many statements were sent and not answered.
    unanswered: AtomicUsize,
    process: Process,
}

impl Line {
    pub(crate) fn new(client: Client, moving: AbortHandle) -> Self {
        Self {
            client,
            moving,
            unanswered: AtomicUsize::new(0),
            process: Process::this(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends statements in one message; answers the first row of their answer.
    pub(crate) async fn ask(
        &self,
        operation: &str,
        statement: &str,
    ) -> Result<Option<SimpleQueryRow>, Failure> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        // Who drops this before the answer has come leaves it counted.
        let messages = self.client.simple_query(statement).await;
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        let messages = messages.map_err(|error| failure(operation, error))?;
        Ok(messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        }))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A goodbye would wait for the answer; so the server learns from the socket that nobody does.
        if self.unanswered.load(Ordering::Relaxed) > 0 && self.process.is_this() {
            self.moving.abort();
        }
    }
}
