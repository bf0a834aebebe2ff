//! Which failures of Redis pass by themselves, and which stay.

use std::error::Error;
use std::fmt;
use std::io;

use guard_core::StoreError;
use redis::{ErrorKind, RedisError};

/// Error codes that stay until somebody acts.
const PERMANENT_CODES: [&str; 9] = [
    "WRONGTYPE",
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "NOPROTO",
    // Protected mode.
    "DENIED",
    // From where nobody expects a cluster.
    "MOVED",
    "ASK",
    "CROSSSLOT",
];

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

/// What the server says everything with that has no code of its own.
const GENERAL_CODE: &str = "ERR";

/// Words that tell, under the general code, of a command that will never be accepted. Whatever has none of them may
/// pass: every server and every gateway has its own words for what it lacks at the moment.
const NEVER: [&str; 9] = [
    "unknown",
    "syntax",
    "invalid",
    "wrong number of arguments",
    "not an integer",
    "out of range",
    "disabled",
    "not supported",
    // A user who lacks a right, in a script.
    "can't run",
];

/// Whether the server answered `error`: then the command has definitely not taken effect, and the
/// connection is fine.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    error.code().is_some()
}

/// The code at the front of a server's error; of one that a script failed with, what the script's own command failed
/// with.
pub(crate) fn code(error: &RedisError) -> Option<&str> {
    let code = error.code()?;
    let inside = error
        .detail()
        .filter(|_| code == GENERAL_CODE)
        .and_then(code_in_script);
    Some(inside.unwrap_or(code))
}

/// Servers before 7.0 put it behind the place in the script: `… @user_script:1: -OOM command not allowed …`, or
/// `@user_script: 5: OOM …`.
fn code_in_script(detail: &str) -> Option<&str> {
    let (_, place) = detail.rsplit_once("user_script:")?;
    let is_place = |it: char| it.is_ascii_digit() || matches!(it, ' ' | ':' | '-');
    let word = place.trim_start_matches(is_place).split(' ').next()?;
    let is_code = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then_some(word)
}

/// Whether the slot carries something that is not a string, and so no token.
pub(crate) fn is_wrong_type(error: &RedisError) -> bool {
    code(error) == Some("WRONGTYPE")
}

/// Whether the server is a replica: it was a master once, or the address leads elsewhere now.
pub(crate) fn is_demoted(error: &RedisError) -> bool {
    matches!(code(error), Some("READONLY" | "MASTERDOWN"))
}

/// Whether the server's words alone say what it means.
pub(crate) fn is_vague(error: &RedisError) -> bool {
    code(error) == Some(GENERAL_CODE)
}

/// Whether the server does not do what was asked of it and can be done without, or does not let us. Its words do
/// not matter: all that counts is that it knows who we are, and does not say that it will soon.
pub(crate) fn is_not_allowed(error: &RedisError) -> bool {
    match code(error) {
        Some("NOPERM") => true,
        Some(code) => !TRANSIENT_CODES.contains(&code) && !PERMANENT_CODES.contains(&code),
        None => false,
    }
}

/// Whether a server may have said this to whatever it was asked, because it wants to hang up: that it has too many
/// clients, for instance.
pub(crate) fn may_be_a_farewell(error: &RedisError) -> bool {
    match code(error) {
        Some("NOPERM") => false,
        Some(GENERAL_CODE) => !tells_of_never(error),
        _ => true,
    }
}

/// What a failure of `operation` means for the guard. Whether the outcome is unknown is for the caller
/// to say.
pub(crate) fn classify(operation: &str, error: RedisError) -> StoreError {
    let (transient, reason) = if let Some(code) = code(&error) {
        let transient = if is_vague(&error) {
            !tells_of_never(&error)
        } else {
            !PERMANENT_CODES.contains(&code)
        };
        (transient, format!("the server answered {code}"))
    } else if error.is_timeout() {
        (true, "no answer within the operation timeout".to_owned())
    } else if let Some(reason) = refused_by_tls(&error) {
        (false, reason)
    } else if error.kind() == ErrorKind::Io {
        let reason = match io_kind(&error) {
            Some(io::ErrorKind::ConnectionRefused) => "the connection was refused",
            Some(io::ErrorKind::NotFound) => "there is no socket at this path",
            Some(io::ErrorKind::UnexpectedEof) => "the server hung up",
            _ => "the connection failed",
        };
        (true, reason.to_owned())
    } else if error.kind() == ErrorKind::Parse {
        let reason = "what came is no answer of a Redis server (one that speaks TLS at this port is told by rediss://)";
        (false, reason.to_owned())
    } else {
        (false, error.category().to_owned())
    };
    let message = format!("{operation}: {reason}");
    let classified = if transient {
        StoreError::transient(message)
    } else {
        StoreError::permanent(message)
    };
    classified.with_source(Cause(error))
}

fn tells_of_never(error: &RedisError) -> bool {
    let words = error.detail().unwrap_or_default().to_lowercase();
    NEVER.iter().any(|never| words.contains(never))
}

fn io_kind(error: &RedisError) -> Option<io::ErrorKind> {
    let inner: &std::sync::Arc<dyn Error + Send + Sync> = error.source()?.downcast_ref()?;
    Some(inner.downcast_ref::<io::Error>()?.kind())
}

/// An error of the client library as a cause. The library's own shows what it wraps, and then names it as its cause
/// once more.
#[derive(Debug)]
pub(crate) struct Cause(pub(crate) RedisError);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()?.source()
    }
}

#[cfg(feature = "tls-rustls")]
use crate::protocol::tls_error::refusal as refused_by_tls;

#[cfg(not(feature = "tls-rustls"))]
const fn refused_by_tls(_: &RedisError) -> Option<String> {
    None
}

/// Nothing came in answer to the first words of a TLS handshake.
#[cfg(feature = "tls-rustls")]
pub(crate) fn no_tls(step: &str, error: RedisError) -> StoreError {
    StoreError::transient(format!(
        "{step}: no answer to the TLS handshake within the operation timeout; does the server speak TLS at this port?"
    ))
    .with_source(Cause(error))
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
