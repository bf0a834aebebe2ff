//! What the scripts answer of leases.

use std::time::Duration;

use guard_core::{Acquired, FencingToken, Holder, LeaseToken};
use redis::Value;

use crate::protocol::answer::Answer;

/// What the acquiring script without fencing answers when the token holds the slot.
const GRANTED: i64 = -3;

/// What the acquiring scripts answer.
impl Answer for Acquired {
    fn read(value: Value) -> Option<Self> {
        match value {
            Value::Int(GRANTED) => Some(Self::Granted { fencing: None }),
            Value::Int(millis) => remaining(millis).map(|remaining| Self::Held { remaining }),
            number => FencingToken::read(number).map(|number| Self::Granted {
                fencing: Some(number),
            }),
        }
    }
}

/// The number of a lease, in digits.
impl Answer for FencingToken {
    fn read(value: Value) -> Option<Self> {
        let digits = Vec::<u8>::read(value)?;
        let number = std::str::from_utf8(&digits).ok()?.parse().ok()?;
        Some(Self::new(number))
    }
}

/// The remaining TTL from the answer of `PTTL` to a key that is there: -1 is none. Between two commands of a script no
/// time passes on most servers; where it does, the key may be gone.
fn remaining(millis: i64) -> Option<Option<Duration>> {
    match millis {
        -1 => Some(None),
        -2 => Some(Some(Duration::ZERO)),
        millis => u64::try_from(millis)
            .ok()
            .map(Duration::from_millis)
            .map(Some),
    }
}

/// Who holds a slot. A foreign token need not be text.
pub(crate) struct Found(pub(crate) Holder);

impl Answer for Found {
    fn read(value: Value) -> Option<Self> {
        let Value::Array(parts) = value else {
            return None;
        };
        let [Value::BulkString(token), Value::Int(millis)] = parts.as_slice() else {
            return None;
        };
        let token = LeaseToken::from_bytes(token.as_slice());
        Some(Self(Holder::new(token, remaining(*millis)?)))
    }
}
