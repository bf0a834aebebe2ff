//! Taking a slot, and telling who keeps it, in one step.

use std::time::Duration;

use guard_core::{Acquired, FencingToken, LeaseToken, LeaseTtl, SlotName};

use redis::{Cmd, FromRedisValue, ParsingError, Value};

use crate::fence::{counter_life, counter_name};
use crate::replicas::Replicas;
use crate::script::{Script, command};
use crate::session::{Failure, Session};

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
            plain: Script::new(include_str!("../scripts/acquire.lua")),
            fenced: Script::new(concat!(
                include_str!("../scripts/acquire_fenced.lua"),
                include_str!("../scripts/number.lua")
            )),
        }
    }

    /// Takes the slot and has it acknowledged, or tells who keeps it.
    pub(crate) fn run(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        let Answer(acquired) =
            self.with_arguments(slot, token, ttl, |script, keys, arguments| {
                script.run(session, keys, arguments)
            })?;
        if matches!(acquired, Acquired::Granted { .. }) {
            self.replicas.acknowledge(session)?;
        }
        Ok(acquired)
    }

    /// The command with which [`run`](Self::run) begins.
    pub(crate) fn command(&self, slot: &SlotName, token: &LeaseToken, ttl: LeaseTtl) -> Cmd {
        self.with_arguments(slot, token, ttl, Script::call)
    }

    /// The command that takes a free slot in one step, quicker than the script, and tells nothing of another
    /// one; `None` where leases are numbered.
    pub(crate) fn if_free(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Option<Cmd> {
        if self.fencing {
            return None;
        }
        let millis = ttl.as_millis().to_string();
        let (slot, token) = (slot.as_str(), token.as_str());
        let words = ["SET", slot, token, "NX", "PX", &millis];
        Some(command(words.into_iter()))
    }

    /// Tries [`if_free`](Self::if_free) first. What it leaves open (whose is it, for how long, is it a token at
    /// all) the script answers, and takes what has come free since.
    pub(crate) fn run_if_free(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        if let Some(set) = self.if_free(slot, token, ttl)
            && session.call::<Option<String>>(&set)?.is_some()
        {
            self.replicas.acknowledge(session)?;
            return Ok(Acquired::Granted { fencing: None });
        }
        self.run(session, slot, token, ttl)
    }

    fn with_arguments<T>(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        work: impl FnOnce(&Script, &[&str], &[&str]) -> T,
    ) -> T {
        let millis = ttl.as_millis().to_string();
        if !self.fencing {
            return work(&self.plain, &[slot.as_str()], &[token.as_str(), &millis]);
        }
        let counter = counter_name(slot);
        let life = counter_life(ttl).to_string();
        let arguments = [token.as_str(), &millis, &life];
        work(&self.fenced, &[slot.as_str(), &counter], &arguments)
    }
}

/// What the acquiring scripts answer.
struct Answer(Acquired);

impl FromRedisValue for Answer {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        Ok(Self(match value {
            Value::Int(GRANTED) => Acquired::Granted { fencing: None },
            Value::Int(millis) => Acquired::Held {
                remaining: remaining(millis),
            },
            number => Acquired::Granted {
                fencing: Some(FencingToken::new(redis::from_redis_value(number)?)),
            },
        }))
    }
}

/// The remaining TTL from `PTTL`'s answer: negative is none.
pub(crate) fn remaining(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}
