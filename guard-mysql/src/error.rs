//! What an error means.

use std::fmt;

use guard_core::{StoreError, printable};
use guard_session::Failure;
use mysql_async::{DriverError, Error, IoError, ServerError};

/// Classes of errors that stay until somebody changes something: what the server does not know, does not understand
/// or does not allow. Any other, also one that nobody has seen yet, may pass by itself.
const PERMANENT_CLASSES: [&str; 7] = ["0A", "22", "23", "28", "34", "3D", "42"];

/// Errors of such a class that pass.
const TRANSIENT_CODES: [u16; 2] = [
    1203, // the account has too many connections
    1226, // the account has used up what it may have in an hour, or at the same time
];

/// Errors of no class that stay. Before the login every error is of none.
const PERMANENT_CODES: [u16; 15] = [
    1044, // no right to the database
    1045, // a wrong password
    1049, // no such database
    1064, // not understood
    1130, // the host may not connect
    1131, // anonymous users may not do this
    1142, // no right to do this
    1193, // a variable that it does not know
    1227, // no right to do this
    1251, // the client's way to log in is too old
    1524, // a way to log in that it does not have
    1698, // no way to log in without a password
    1862, // the password has expired
    3118, // the account is locked
    4151, // the account is locked, in MariaDB
];

/// Answers after which there is no session.
const LAST_WORDS: [u16; 12] = [
    1053, // it shuts down
    1152, // aborted
    1158, // reading failed
    1159, // reading took too long
    1160, // writing failed
    1161, // writing took too long
    1184, // aborted
    1927, // MariaDB: killed
    2006, // a proxy: its own connection is gone
    2013, // a proxy: its own connection was lost
    3169, // MySQL: killed
    4031, // MySQL: idle for too long
];

/// There is no such session.
pub(crate) const NO_SUCH_THREAD: u16 = 1094;
/// It is another account's.
pub(crate) const NOT_THE_OWNER: u16 = 1095;

/// What the server said, for those who decide by it; its words are in the error that this is the source of.
#[derive(Debug)]
enum Said {
    Error { code: u16, state: String },
    OutOfOrder,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { state, .. } => write!(f, "SQLSTATE {state}"),
            Self::OutOfOrder => f.write_str("as from a server that ends an idle session"),
        }
    }
}

impl std::error::Error for Said {}

fn said(error: &StoreError) -> Option<&Said> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}

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
    match error {
        Error::Server(answer) => {
            let text = format!(
                "{operation}: the server says: {} ({})",
                printable(&answer.message),
                answer.code
            );
            let error = if is_permanent(&answer) {
                StoreError::permanent(text)
            } else {
                StoreError::transient(text)
            };
            error.with_source(Said::Error {
                code: answer.code,
                state: printable(&answer.state),
            })
        }
        Error::Io(IoError::Io(cause)) => {
            StoreError::transient(format!("{operation}: the connection failed")).with_source(cause)
        }
        // What the server says unasked before it closes an idle connection comes out of order.
        Error::Driver(what @ DriverError::PacketOutOfOrder) => {
            StoreError::transient(format!("{operation}: {what}")).with_source(Said::OutOfOrder)
        }
        Error::Driver(
            what @ (DriverError::ConnectionClosed | DriverError::UnexpectedPacket { .. }),
        ) => StoreError::transient(format!("{operation}: {what}")),
        other => {
            let text = printable(&other.to_string());
            StoreError::permanent(format!("{operation}: {text}"))
        }
    }
}

fn is_permanent(answer: &ServerError) -> bool {
    let class = answer.state.get(..2).unwrap_or_default();
    PERMANENT_CODES.contains(&answer.code)
        || PERMANENT_CLASSES.contains(&class) && !TRANSIENT_CODES.contains(&answer.code)
}

/// Whether this is the server's error with that number.
pub(crate) fn is(error: &StoreError, number: u16) -> bool {
    matches!(said(error), Some(Said::Error { code, .. }) if *code == number)
}

/// Whether this is what the server says of a session that it had ended before the statement came.
pub(crate) fn is_farewell(error: &StoreError) -> bool {
    match said(error) {
        Some(Said::Error { code, .. }) => LAST_WORDS.contains(code),
        Some(Said::OutOfOrder) => true,
        None => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(code: u16, state: &str) -> StoreError {
        let (message, state) = ("in words of its own\n".to_owned(), state.to_owned());
        classify(
            "connecting",
            Error::Server(ServerError {
                code,
                message,
                state,
            }),
        )
    }

    #[test]
    fn what_may_pass_by_itself_is_told_by_its_number_and_so_is_what_is_new() {
        for (code, state) in [
            (1040, "08004"),
            // As every error is told before the login.
            (1040, "HY000"),
            (1129, "HY000"),
            (1203, "42000"),
            (1226, "42000"),
            (1053, "08S01"),
            (1205, "HY000"),
            (1213, "40001"),
            (1290, "HY000"),
            (1836, "HY000"),
            (1927, "70100"),
            (1969, "70100"),
            (2006, "HY000"),
            (2013, "HY000"),
            (3024, "HY000"),
            (9999, "HY000"),
            (9999, ""),
        ] {
            let error = classified(code, state);
            assert!(error.is_transient(), "{code}");
            let text = error.to_string();
            assert!(
                text.contains(&code.to_string()) && !text.contains('\n'),
                "{text:?}"
            );
        }
        for (code, state) in [
            (1044, "42000"),
            (1045, "HY000"),
            (1045, "28000"),
            (1049, "HY000"),
            (1064, "42000"),
            (1130, "HY000"),
            (1227, "42000"),
            (1305, "42000"),
            (1698, "28000"),
        ] {
            assert!(!classified(code, state).is_transient(), "{code}");
        }
    }

    #[test]
    fn a_session_that_a_server_or_a_proxy_has_ended_is_not_used_again() {
        let answer = |code: u16| {
            let (message, state) = (String::new(), "HY000".to_owned());
            let error = Error::Server(ServerError {
                code,
                message,
                state,
            });
            matches!(failure("locking", error), Failure::Answer(_))
        };
        assert_eq!([1053, 1927, 2006, 2013].map(answer), [false; 4]);
        assert_eq!([1040, 1205, 3024, 9999].map(answer), [true; 4]);
    }
}
