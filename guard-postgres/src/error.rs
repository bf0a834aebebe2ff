//! What an error means.

use std::{fmt, io};

use guard_core::{StoreError, printable};
use guard_session::Failure;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Classes of errors that stay until somebody changes something: what the server does not know, does not understand
/// or does not allow. Any other, also one that nobody has seen yet, may pass by itself.
const PERMANENT_CLASSES: [&str; 12] = [
    "0A", "0L", "0P", "22", "23", "26", "28", "2B", "34", "3D", "3F", "42",
];

/// The class of errors of the connection: whoever says so has no session for us, a pooler included.
const CONNECTION_CLASS: &str = "08";

/// The server's code, for those who decide by it; its words are in the error that this is the source of.
#[derive(Debug)]
struct Said {
    code: SqlState,
    severity: String,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "severity {}", self.severity)
    }
}

impl std::error::Error for Said {}

/// Whether the server said so with this code.
pub(crate) fn is(error: &StoreError, code: &SqlState) -> bool {
    let source = std::error::Error::source(error);
    let said = source.and_then(|source| source.downcast_ref::<Said>());
    said.is_some_and(|said| said.code == *code)
}

/// The error of a statement.
pub(crate) fn failure(operation: &str, error: tokio_postgres::Error) -> Failure {
    let is_over = error.as_db_error().is_none_or(ends_session);
    let error = classify(operation, error);
    if is_over {
        Failure::Ended(error)
    } else {
        Failure::Answer(error)
    }
}

/// Whether the session ends with this answer. Poolers and old servers tell only the word.
fn ends_session(answer: &DbError) -> bool {
    let goes_on = match answer.parsed_severity() {
        Some(severity) => !matches!(severity, Severity::Fatal | Severity::Panic),
        None => answer.severity() == "ERROR",
    };
    !goes_on || answer.code().code().starts_with(CONNECTION_CLASS)
}

/// The error of a statement or of connecting.
pub(crate) fn classify(operation: &str, error: tokio_postgres::Error) -> StoreError {
    if let Some(answer) = error.as_db_error() {
        let code = answer.code().code();
        let text = format!(
            "{operation}: PostgreSQL says: {} ({code})",
            printable(answer.message())
        );
        let error = if is_permanent(code) {
            StoreError::permanent(text)
        } else {
            StoreError::transient(text)
        };
        return error.with_source(Said {
            code: answer.code().clone(),
            severity: printable(answer.severity()),
        });
    }
    let text = format!("{operation}: {error}");
    if error.is_closed() {
        return StoreError::transient(text);
    }
    match error
        .into_source()
        .map(|cause| cause.downcast::<io::Error>())
    {
        // The socket failed, or what came over it was no answer.
        Some(Ok(cause)) => StoreError::transient(text).with_source(*cause),
        // There is no way to log in.
        Some(Err(cause)) => {
            StoreError::permanent(format!("{text}: {}", printable(&cause.to_string())))
        }
        None => StoreError::permanent(text),
    }
}

fn is_permanent(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    PERMANENT_CLASSES.contains(&class)
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

#[cfg(test)]
mod tests {
    use super::is_permanent;

    #[test]
    fn what_may_pass_by_itself_is_told_by_its_code_and_so_is_what_is_new() {
        for code in [
            "53300", "53200", "57P01", "57P02", "57P03", "57014", "08006", "08P01", "25006",
            "40001", "40P01", "55006", "55P03", "58000", "XX000", "99999", "", "é",
        ] {
            assert!(!is_permanent(code), "{code}");
        }
        for code in [
            "28P01", "28000", "3D000", "42501", "42883", "42P01", "0A000", "22023",
        ] {
            assert!(is_permanent(code), "{code}");
        }
    }
}
