//! Why a command failed, and what follows.

use guard_core::StoreError;
use redis::{ErrorKind, RedisError};

use crate::protocol::error::{classify, code, is_answer, is_demoted};

/// Why a command failed, by what it means for the connection.
pub(crate) enum Failure {
    /// The server answered with an error: the command has not taken effect, the connection is fine.
    Answer(RedisError),
    /// The connection, or what came over it, cannot be trusted any more; the command may have been
    /// executed, or may yet be.
    Connection(RedisError),
    /// The server is a replica now, so what it says of a token counts for nothing, and what it did may be undone.
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
                    .with_unknown_outcome()
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

pub(crate) fn failure(error: RedisError) -> Failure {
    if is_answer(&error) {
        Failure::Answer(error)
    } else {
        Failure::Connection(error)
    }
}

/// The answer is none that was asked for: what the connection says next counts for nothing, either.
pub(crate) fn unexpected() -> Failure {
    let what = "an answer that the command does not give";
    Failure::Connection((ErrorKind::UnexpectedReturnType, what).into())
}
