//! Which failures of Redis pass by themselves, and which stay.

use guard_core::StoreError;
use redis::{ErrorKind, RedisError};

/// Error codes of the server that pass: it starts, fails over, is full or busy.
const TRANSIENT_CODES: [&str; 12] = [
    "LOADING",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "READONLY",
    "MASTERDOWN",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    // To a client that waits while its master becomes a replica.
    "UNBLOCKED",
    // A script that was loaded a moment ago and is gone again.
    "NOSCRIPT",
    "UNKILLABLE",
];

/// The one transient failure that the server reports under its general code.
const TOO_MANY_CLIENTS: &str = "max number of clients reached";

/// Whether the server answered `error`: then the command has definitely not taken effect, and the
/// connection is fine.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    error.code().is_some()
}

/// Whether the slot carries something that is not a string, and so no token.
pub(crate) fn is_wrong_type(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE")
}

/// Whether the server is a replica: it was a master once, or the address leads elsewhere now.
pub(crate) fn is_demoted(error: &RedisError) -> bool {
    match error.code() {
        Some("READONLY" | "MASTERDOWN") => true,
        // How servers before 7.0 report the failure of a script's command.
        Some("ERR") => error
            .detail()
            .is_some_and(|detail| detail.contains("-READONLY ")),
        _ => false,
    }
}

/// Whether the server does not know a command, or does not let us use it.
pub(crate) fn is_not_allowed(error: &RedisError) -> bool {
    let unknown = || {
        error
            .detail()
            .is_some_and(|detail| detail.to_lowercase().contains("unknown"))
    };
    match error.code() {
        Some("NOPERM") => true,
        Some("ERR") => unknown(),
        _ => false,
    }
}

/// What a failure of `operation` means for the guard. Whether the outcome is unknown is for the caller
/// to say.
pub(crate) fn classify(operation: &str, error: RedisError) -> StoreError {
    let (transient, reason) = if let Some(code) = error.code() {
        let busy = error
            .detail()
            .is_some_and(|detail| detail.contains(TOO_MANY_CLIENTS));
        let transient = busy || is_demoted(&error) || TRANSIENT_CODES.contains(&code);
        (transient, format!("the server answered {code}"))
    } else if error.is_timeout() {
        (true, "no answer within the operation timeout".to_owned())
    } else if let Some(reason) = refused_by_tls(&error) {
        (false, reason)
    } else if error.is_connection_refusal() {
        (true, "the connection was refused".to_owned())
    } else if error.kind() == ErrorKind::Io {
        (true, "the connection failed".to_owned())
    } else {
        (false, error.category().to_owned())
    };
    let message = format!("{operation}: {reason}");
    let classified = if transient {
        StoreError::transient(message)
    } else {
        StoreError::permanent(message)
    };
    classified.with_source(error)
}

#[cfg(feature = "tls-rustls")]
use crate::tls::refusal as refused_by_tls;

#[cfg(not(feature = "tls-rustls"))]
const fn refused_by_tls(_: &RedisError) -> Option<String> {
    None
}

/// Nothing came in answer to the first command on a connection by TLS, and so perhaps to its handshake.
pub(crate) fn no_tls(step: &str, error: RedisError) -> StoreError {
    StoreError::transient(format!(
        "{step}: no answer to the TLS handshake or to what followed within the operation timeout; does the server \
         speak TLS at this port?"
    ))
    .with_source(error)
}

/// The operation's time was over before a step of it could begin.
pub(crate) fn out_of_time(step: &str) -> StoreError {
    StoreError::transient(format!("{step}: the operation timeout is over"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error as the client library makes it from what a server or a socket said.
    fn answered(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    fn io(kind: std::io::ErrorKind) -> RedisError {
        std::io::Error::from(kind).into()
    }

    #[test]
    fn what_passes_by_itself_is_transient() {
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "READONLY You can't write against a read only replica.",
            "MASTERDOWN Link with MASTER is down",
            "BUSY Redis is busy running a script.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MISCONF Redis is configured to save RDB snapshots",
            "NOREPLICAS Not enough good replicas to write.",
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "NOSCRIPT No matching script.",
            "ERR max number of clients reached",
            "ERR Error running script (call to f_1): @user_script:9: -READONLY You can't write against a read \
             only replica.",
        ] {
            let error = answered(line);
            assert!(is_answer(&error), "{line}");
            assert!(classify("acquire", error).is_transient(), "{line}");
        }
        use std::io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected,
            TimedOut, UnexpectedEof, WouldBlock,
        };
        for kind in [
            BrokenPipe,
            ConnectionAborted,
            ConnectionRefused,
            ConnectionReset,
            NotConnected,
            TimedOut,
            UnexpectedEof,
            WouldBlock,
        ] {
            let error = io(kind);
            assert!(!is_answer(&error), "{kind:?}");
            assert!(classify("acquire", error).is_transient(), "{kind:?}");
        }
    }

    #[test]
    fn what_stays_until_somebody_acts_is_permanent() {
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "NOPERM this user has no permissions to run the 'set' command",
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "ERR syntax error",
            "ERR invalid expire time in 'set' command",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "CROSSSLOT Keys in request don't hash to the same slot",
            "NOPROTO unsupported protocol version",
        ] {
            let error = answered(line);
            assert!(is_answer(&error), "{line}");
            assert!(!classify("acquire", error).is_transient(), "{line}");
        }
        assert!(is_wrong_type(&answered(
            "WRONGTYPE Operation against a key"
        )));
    }

    #[test]
    fn garbage_instead_of_an_answer_is_permanent_and_no_answer() {
        let error = redis::parse_redis_value(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err();
        assert!(!is_answer(&error));
        assert!(!classify("acquire", error).is_transient());
    }
}
