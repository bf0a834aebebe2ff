//! What an error means.

use guard_core::StoreError;
use guard_session::Failure;
use tokio_postgres::error::{Severity, SqlState};

/// Classes of errors that pass by themselves: connection, transaction conflicts, resources, an operator's
/// or the system's intervention, the system itself.
const TRANSIENT_CLASSES: [&str; 6] = ["08", "40", "53", "55", "57", "58"];

/// The error of a statement.
pub(crate) fn failure(operation: &str, error: tokio_postgres::Error) -> Failure {
    let answer = error.as_db_error();
    let is_over = answer.is_none_or(|answer| {
        matches!(
            answer.parsed_severity(),
            Some(Severity::Fatal | Severity::Panic)
        )
    });
    let error = classify(operation, error);
    if is_over {
        Failure::Ended(error)
    } else {
        Failure::Answer(error)
    }
}

/// The error of a statement or of connecting.
pub(crate) fn classify(operation: &str, error: tokio_postgres::Error) -> StoreError {
    let is_transient = match error.code() {
        // A database that somebody else is copying, or that does not exist, or a login that is refused.
        Some(code) => {
            *code == SqlState::OBJECT_IN_USE
                || code
                    .code()
                    .get(..2)
                    .is_some_and(|class| TRANSIENT_CLASSES.contains(&class))
        }
        // The socket failed, or what came over it was no answer.
        None => is_io(&error) || error.is_closed(),
    };
    let text = match error.as_db_error() {
        Some(answer) => format!(
            "{operation}: PostgreSQL says: {} ({})",
            answer.message(),
            answer.code().code()
        ),
        None => format!("{operation}: {error}"),
    };
    let store_error = if is_transient {
        StoreError::transient(text)
    } else {
        StoreError::permanent(text)
    };
    store_error.with_source(error)
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<std::io::Error>())
}

/// The server does not keep a backend for each of our connections.
pub(crate) fn shared() -> StoreError {
    StoreError::permanent(
        "the connection shares its backend with others, as behind a pooler in transaction or statement mode; \
         advisory locks need a backend of their own: connect directly or in session mode",
    )
}

/// The server is none whose locks exclude.
pub(crate) fn unfit() -> StoreError {
    StoreError::transient(
        "the server is a standby, or read-only (`transaction_read_only`), as a primary is whose place another takes; \
         locks there exclude nobody",
    )
}
