//! What a command answers, to the letter.
//!
//! The answer to another command, or of a server that only collects commands (`MULTI`), must never be taken for a
//! yes. So each command says what it can answer, and anything else is a failure of the connection: it is given up, and
//! nobody knows what became of the command.

use redis::{RedisError, Value};

use crate::protocol::error::is_not_allowed;

/// An answer that a command can give.
pub(crate) trait Answer: Sized {
    /// `None` if the command never answers this.
    fn read(value: Value) -> Option<Self>;
}

/// `OK`.
pub(crate) struct Done;

impl Answer for Done {
    fn read(value: Value) -> Option<Self> {
        matches!(value, Value::Okay).then_some(Self)
    }
}

/// The answer to a bare `PING`.
pub(crate) struct Pong;

impl Answer for Pong {
    fn read(value: Value) -> Option<Self> {
        matches!(value, Value::SimpleString(text) if text == "PONG").then_some(Self)
    }
}

/// A script's no or yes: 0 or 1.
impl Answer for bool {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            _ => None,
        }
    }
}

/// How many.
impl Answer for u64 {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Int(number) => number.try_into().ok(),
            _ => None,
        }
    }
}

/// Bytes of the length that the server told.
impl Answer for Vec<u8> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Text of the server about itself.
impl Answer for String {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::BulkString(bytes) => Self::from_utf8(bytes).ok(),
            Value::VerbatimString { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl<T: Answer> Answer for Option<T> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Nil => Some(None),
            value => T::read(value).map(Some),
        }
    }
}

/// A script's answers for one slot after the other.
impl Answer for Vec<bool> {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Array(values) => values.into_iter().map(bool::read).collect(),
            _ => None,
        }
    }
}

/// Whatever it is: the caller looks at it.
impl Answer for Value {
    fn read(value: Value) -> Option<Self> {
        Some(value)
    }
}

/// What a server is, by its own word (`ROLE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    /// It copies from the server at this address.
    Replica(String),
    Sentinel,
    /// It does not tell, or not us.
    Untold,
}

impl Role {
    /// Reads what came in answer to `ROLE`, errors included; `None` if that is none.
    pub(crate) fn read(answer: Result<Value, RedisError>) -> Option<Self> {
        let parts = match answer {
            Ok(Value::Array(parts)) => parts,
            Err(error) if is_not_allowed(&error) => return Some(Self::Untold),
            Ok(_) | Err(_) => return None,
        };
        match parts.as_slice() {
            [Value::BulkString(role), ..] if role == b"master" => Some(Self::Master),
            [Value::BulkString(role), ..] if role == b"sentinel" => Some(Self::Sentinel),
            [
                Value::BulkString(role),
                Value::BulkString(host),
                Value::Int(port),
                ..,
            ] if role == b"slave" => {
                let host = String::from_utf8_lossy(host);
                Some(Self::Replica(format!("{host}:{port}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Answer>(answer: &str) -> Option<T> {
        T::read(redis::parse_redis_value(answer.as_bytes()).unwrap())
    }

    #[test]
    fn only_the_exact_answer_counts() {
        assert!(read::<Done>("+OK\r\n").is_some());
        for other in [
            "+QUEUED\r\n",
            "+ok\r\n",
            "$2\r\nOK\r\n",
            ":1\r\n",
            "$-1\r\n",
        ] {
            assert!(read::<Done>(other).is_none(), "{other}");
        }
        assert!(read::<Option<Done>>("$-1\r\n").unwrap().is_none());
        assert!(read::<Option<Done>>("+QUEUED\r\n").is_none());
        assert_eq!(read::<bool>(":1\r\n"), Some(true));
        for other in [":2\r\n", ":-1\r\n", "$1\r\n1\r\n", "+1\r\n", "+OK\r\n"] {
            assert_eq!(read::<bool>(other), None, "{other}");
        }
        assert_eq!(read::<u64>(":2\r\n"), Some(2));
        assert_eq!(read::<u64>(":-2\r\n"), None);
        assert_eq!(
            read::<Vec<bool>>("*2\r\n:1\r\n:0\r\n"),
            Some(vec![true, false])
        );
        assert_eq!(read::<Vec<bool>>("*2\r\n:1\r\n:3\r\n"), None);
        assert!(read::<Pong>("+PONG\r\n").is_some());
        assert!(read::<Pong>("+QUEUED\r\n").is_none());
    }

    #[test]
    fn a_role_is_a_masters_only_by_its_word() {
        let role = |text: &str| {
            let value = redis::parse_redis_value(text.as_bytes()).unwrap();
            Role::read(value.extract_error())
        };
        let master = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
        let replica = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:7\r\n$9\r\nconnected\r\n:0\r\n";
        assert_eq!(role(master), Some(Role::Master));
        assert_eq!(role(replica), Some(Role::Replica("127.0.0.1:7".to_owned())));
        assert_eq!(role("-NOPERM no\r\n"), Some(Role::Untold));
        assert_eq!(role("+QUEUED\r\n"), None);
        assert_eq!(role("*0\r\n"), None);
    }
}
