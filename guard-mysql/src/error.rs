//! What an error means.

use guard_core::StoreError;
use guard_session::Failure;
use mysql_async::{DriverError, Error, ServerError};

/// Classes of errors that pass by themselves: connection, transaction conflicts, interruption.
const TRANSIENT_CLASSES: [&str; 3] = ["08", "40", "70"];

/// Errors of no such class that do, too.
const TRANSIENT_CODES: [u16; 11] = [
    1021, // the disk is full
    1037, // out of memory
    1038, // out of memory for sorting
    1041, // out of memory of the system
    1135, // no thread for the connection
    1203, // the account has too many connections
    1205, // a lock wait timed out
    1226, // the account has used up its hourly connections
    1290, // read-only, as after a failover
    1836, // read-only
    1969, // MariaDB's time for a statement is over
];

/// Answers after which the server closes the connection.
const LAST_WORDS: [u16; 9] = [
    1053, // it shuts down
    1152, // aborted
    1158, // reading failed
    1159, // reading took too long
    1160, // writing failed
    1161, // writing took too long
    1927, // MariaDB: killed
    3169, // MySQL: killed
    4031, // MySQL: idle for too long
];

/// There is no such session.
pub(crate) const NO_SUCH_THREAD: u16 = 1094;
/// It is another account's.
pub(crate) const NOT_THE_OWNER: u16 = 1095;

/// The error of a statement.
pub(crate) fn failure(operation: &str, error: Error) -> Failure {
    let is_over = match &error {
        Error::Server(answer) => LAST_WORDS.contains(&answer.code),
        _ => true,
    };
    let error = classify(operation, error);
    if is_over {
        Failure::Ended(error)
    } else {
        Failure::Answer(error)
    }
}

/// The error of a statement or of connecting.
pub(crate) fn classify(operation: &str, error: Error) -> StoreError {
    let is_transient = match &error {
        Error::Server(answer) => is_transient(answer),
        Error::Io(_) => true,
        // What the server says unasked before it closes an idle connection comes out of order.
        Error::Driver(DriverError::ConnectionClosed | DriverError::PacketOutOfOrder) => true,
        _ => false,
    };
    let text = match &error {
        Error::Server(ServerError { code, message, .. }) => {
            format!("{operation}: the server says: {message} ({code})")
        }
        other => format!("{operation}: {other}"),
    };
    let store_error = if is_transient {
        StoreError::transient(text)
    } else {
        StoreError::permanent(text)
    };
    store_error.with_source(error)
}

fn is_transient(answer: &ServerError) -> bool {
    let class = answer.state.get(..2).unwrap_or_default();
    TRANSIENT_CLASSES.contains(&class)
        || TRANSIENT_CODES.contains(&answer.code)
        || LAST_WORDS.contains(&answer.code)
}

/// Whether this is the server's error with that number.
pub(crate) fn is(error: &StoreError, code: u16) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    matches!(source, Some(Error::Server(answer)) if answer.code == code)
}

/// Whether this is what the server says of a session that it had ended before the statement came.
pub(crate) fn is_farewell(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    match source {
        Some(Error::Server(answer)) => LAST_WORDS.contains(&answer.code),
        Some(Error::Driver(DriverError::PacketOutOfOrder)) => true,
        _ => false,
    }
}

/// The session does not exist any more at our end.
pub(crate) fn over(operation: &str) -> StoreError {
    StoreError::transient(format!("{operation}: the session has ended"))
}

/// The server does not keep a session for each of our connections.
pub(crate) fn shared() -> StoreError {
    StoreError::permanent(
        "the connection shares its session with others, as behind a proxy that multiplexes; named locks need a \
         session of their own: connect directly, or have the proxy keep a session for each connection",
    )
}

/// The server is none whose locks exclude.
pub(crate) fn unfit() -> StoreError {
    StoreError::transient(
        "the server is read-only, as replicas are, and primaries whose place another takes; locks there exclude nobody",
    )
}
