//! Taking a slot, and telling who keeps it, in one step.

use std::time::Duration;

use guard_core::{Acquired, FencingToken, Holder, LeaseToken, LeaseTtl, SlotName};

use redis::{Value, cmd};

use crate::answer::{Answer, Done};
use crate::failure::Failure;
use crate::fence::{counter_life, counter_name};
use crate::replicas::Replicas;
use crate::script::Script;
use crate::session::{FRESH, Session};

/// What the script without fencing answers when the token holds the slot.
const GRANTED: i64 = -3;

/// The acquiring scripts.
pub(crate) struct Take {
    fencing: bool,
    replicas: Replicas,
    plain: Script,
    fenced: Script,
}

impl Take {
    pub(crate) fn new(fencing: bool, replicas: Replicas) -> Self {
        Self {
            fencing,
            replicas,
            plain: Script::new(concat!(
                include_str!("../scripts/role.lua"),
                include_str!("../scripts/acquire.lua")
            )),
            fenced: Script::new(concat!(
                include_str!("../scripts/role.lua"),
                include_str!("../scripts/acquire_fenced.lua"),
                include_str!("../scripts/number.lua")
            )),
        }
    }

    /// Takes the slot and has it acknowledged, or tells who keeps it. Most looks on the tracked connection find the slot
    /// held, so there the script itself asks for the server's role before it grants, and no command accompanies it.
    pub(crate) fn run(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        if !session.tracked {
            session.doubt_role(FRESH);
        }
        let tracked = session.reads_again().as_bytes();
        let millis = ttl.as_millis().to_string();
        let millis = millis.as_bytes();
        let acquired = if self.fencing {
            let counter = counter_name(slot);
            let life = counter_life(ttl).to_string();
            let arguments = [token.as_bytes(), millis, life.as_bytes(), tracked];
            self.fenced
                .run(session, &[slot.as_str(), &counter], &arguments)?
        } else {
            let arguments = [token.as_bytes(), millis, tracked];
            self.plain.run(session, &[slot.as_str()], &arguments)?
        };
        if matches!(acquired, Acquired::Granted { .. }) {
            self.replicas.acknowledge(session)?;
        }
        Ok(acquired)
    }

    /// Tries first, where leases are not numbered, the command that takes a free slot in one step, quicker than the
    /// script. What it leaves open (whose is the slot, for how long, is it a token at all) the script answers, and takes
    /// what has come free since.
    pub(crate) fn run_if_free(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        session.doubt_role(FRESH);
        if !self.fencing {
            let mut set = cmd("SET");
            set.arg(slot.as_str()).arg(token.as_bytes());
            set.arg("NX").arg("PX").arg(ttl.as_millis());
            if session.ask::<Option<Done>>(&set)?.is_some() {
                self.replicas.acknowledge(session)?;
                return Ok(Acquired::Granted { fencing: None });
            }
        }
        self.run(session, slot, token, ttl)
    }
}

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
