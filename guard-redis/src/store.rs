//! The store contract in commands and scripts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, FencingToken, HandedOver, Holder, LeaseStore, LeaseToken,
    LeaseTtl, Released, Renewed, SlotName, StoreError, Waker, Watch,
};
use redis::cmd;

use crate::builder::Wakeups;
use crate::error::is_wrong_type;
use crate::fence::{counter_life, counter_name};
use crate::links::Links;
use crate::replicas::Replicas;
use crate::script::Script;
use crate::session::{Failure, Session};
use crate::unanswered::Unanswered;
use crate::wakeups::WakeupLine;

/// The longest TTL, about 146 million years: the server adds it to its clock, and both are kept in signed
/// 64-bit milliseconds.
const MAX_TTL: Duration = Duration::from_millis(1 << 62);

/// What the acquiring scripts answer when the token holds the slot.
const GRANTED: i64 = -3;

/// How many leases are renewed by one script: few enough that nobody else waits long for the server.
const RENEWED_TOGETHER: usize = 100;

/// Leases in Redis. Clones are handles of the same connections.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    links: Links,
    wakeups: WakeupLine,
    unanswered: Arc<Unanswered>,
    capabilities: Capabilities,
    min_replicas: Replicas,
    acquire: Script,
    acquire_fenced: Script,
    renew: Script,
    release: Script,
    hand_over: Script,
    hand_over_fenced: Script,
    holder: Script,
}

impl RedisStore {
    pub(crate) fn new(
        links: Links,
        wakeups: WakeupLine,
        unanswered: Arc<Unanswered>,
        capabilities: Capabilities,
        min_replicas: u32,
    ) -> Self {
        Self(Arc::new(Inner {
            links,
            wakeups,
            unanswered,
            capabilities,
            min_replicas: Replicas(min_replicas),
            acquire: Script::new(include_str!("../scripts/acquire.lua")),
            acquire_fenced: Script::new(include_str!("../scripts/acquire_fenced.lua")),
            renew: Script::new(include_str!("../scripts/renew.lua")),
            release: Script::new(include_str!("../scripts/release.lua")),
            hand_over: Script::new(include_str!("../scripts/hand_over.lua")),
            hand_over_fenced: Script::new(include_str!("../scripts/hand_over_fenced.lua")),
            holder: Script::new(include_str!("../scripts/holder.lua")),
        }))
    }

    pub(crate) fn capabilities(fencing: bool, wakeups: Wakeups) -> Capabilities {
        let mut capabilities = Capabilities::new(MAX_TTL);
        capabilities.fencing = fencing;
        capabilities.wakeups = wakeups == Wakeups::Tracking;
        capabilities
    }
}

impl Inner {
    /// Takes the slot by script and has it acknowledged, or tells who keeps it.
    fn take(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        let acquired = self.take_here(session, slot, token, ttl)?;
        if matches!(acquired, Acquired::Granted { .. }) {
            self.min_replicas.acknowledge(session)?;
        }
        Ok(acquired)
    }

    fn take_here(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        let millis = ttl.as_millis().to_string();
        if !self.capabilities.fencing {
            let arguments = [token.as_str(), &millis];
            let answer = self.acquire.run(session, &[slot.as_str()], &arguments)?;
            return Ok(acquired(answer, None));
        }
        let counter = counter_name(slot);
        let life = counter_life(ttl).to_string();
        let keys = [slot.as_str(), &counter];
        let arguments = [token.as_str(), &millis, &life];
        let (answer, number) = match self.acquire_fenced.run(session, &keys, &arguments)? {
            Answer::Numbered(answer, number) => (answer, Some(FencingToken::new(number))),
            Answer::Plain((answer,)) => (answer, None),
        };
        Ok(acquired(answer, number))
    }

    /// Passes the slot on and has it acknowledged.
    fn swap(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        tokens: [&LeaseToken; 2],
        ttl: LeaseTtl,
    ) -> Result<HandedOver, Failure> {
        let handed = self.swap_here(session, slot, tokens, ttl)?;
        if matches!(handed, HandedOver::Granted { .. }) {
            self.min_replicas.acknowledge(session)?;
        }
        Ok(handed)
    }

    fn swap_here(
        &self,
        session: &mut Session<'_>,
        slot: &SlotName,
        tokens: [&LeaseToken; 2],
        ttl: LeaseTtl,
    ) -> Result<HandedOver, Failure> {
        let [from, to] = tokens.map(LeaseToken::as_str);
        let millis = ttl.as_millis().to_string();
        if !self.capabilities.fencing {
            let arguments = [from, to, &millis];
            let held = self.hand_over.run(session, &[slot.as_str()], &arguments);
            return Ok(match not_ours_if_wrong_type(held, 0)? {
                1 => HandedOver::Granted { fencing: None },
                _ => HandedOver::NotHeld,
            });
        }
        let counter = counter_name(slot);
        let life = counter_life(ttl).to_string();
        let keys = [slot.as_str(), &counter];
        let arguments = [from, to, &millis, &life];
        Ok(
            match self.hand_over_fenced.run(session, &keys, &arguments)? {
                Some(number) => HandedOver::Granted {
                    fencing: Some(FencingToken::new(number)),
                },
                None => HandedOver::NotHeld,
            },
        )
    }

    fn renew_together(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        let counters: Vec<String> = if self.capabilities.fencing {
            leases.iter().map(|(slot, _)| counter_name(slot)).collect()
        } else {
            Vec::new()
        };
        let slots = leases.iter().map(|(slot, _)| slot.as_str());
        let keys: Vec<&str> = slots.chain(counters.iter().map(String::as_str)).collect();
        let (millis, life) = (ttl.as_millis().to_string(), counter_life(ttl).to_string());
        let mut arguments = vec![millis.as_str(), life.as_str()];
        arguments.extend(leases.iter().map(|(_, token)| token.as_str()));

        let work = |session: &mut Session<'_>| {
            let answers: Vec<i64> = self.renew.run(session, &keys, &arguments)?;
            let acknowledged = if answers.contains(&1) {
                self.min_replicas.acknowledge(session)
            } else {
                Ok(())
            };
            let renewed = match acknowledged {
                Ok(()) => Ok(Renewed::Renewed),
                // A lease that is not held is so all the same.
                Err(failure @ Failure::Unreplicated(_)) => Err(failure.into_store_error("renew")),
                Err(failure) => return Err(failure),
            };
            let outcome = |held| match held {
                1 => renewed.clone(),
                _ => Ok(Renewed::NotHeld),
            };
            Ok(answers.into_iter().map(outcome).collect())
        };
        // On the tracked connection a renewal also registers for the slot's next change, and is not told
        // of its own.
        if leases.iter().any(|(slot, _)| self.wakeups.is_watched(slot)) {
            match self.wakeups.look(None, budget, work) {
                None => {}
                Some(Err(error)) if error.is_unknown() => {}
                Some(result) => return result,
            }
        }
        self.links.operate("renew", budget, None, work)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

impl LeaseStore for RedisStore {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        let inner = &*self.0;
        let take = |session: &mut Session<'_>| inner.take(session, slot, token, ttl);
        let mut doubt = false;
        if inner.wakeups.is_watched(slot) {
            match inner.wakeups.look(Some(token), budget, take) {
                Some(Err(error)) if error.is_unknown() => doubt = true,
                Some(result) => return result,
                None => {}
            }
        }
        let mut set = cmd("SET");
        let millis = ttl.as_millis();
        set.arg(slot.as_str())
            .arg(token.as_str())
            .arg("NX")
            .arg("PX")
            .arg(millis);
        let result = inner
            .links
            .operate("acquire", budget, Some(token), |session| {
                // The plain command decides a free slot in one round trip. What it leaves open (whose is it,
                // for how long, is it a token at all) the script answers, and takes what has come free since.
                if !inner.capabilities.fencing && session.call::<Option<String>>(&set)?.is_some() {
                    inner.min_replicas.acknowledge(session)?;
                    return Ok(Acquired::Granted { fencing: None });
                }
                take(session)
            });
        // The look that failed may still take effect: without an answer to this it stays unknown.
        result.map_err(|error| {
            if doubt {
                error.with_unknown_outcome()
            } else {
                error
            }
        })
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let lease = [(slot.clone(), token.clone())];
        let mut answers = self.0.renew_together(&lease, ttl, budget)?.into_iter();
        answers
            .next()
            .unwrap_or_else(|| Err(StoreError::permanent("renew: no answer")))
    }

    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        let mut results = Vec::with_capacity(leases.len());
        for leases in leases.chunks(RENEWED_TOGETHER) {
            match self.0.renew_together(leases, ttl, budget) {
                Ok(answers) => results.extend(answers),
                Err(error) => results.extend(leases.iter().map(|_| Err(error.clone()))),
            }
        }
        results
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        let inner = &*self.0;
        let suspects = inner.unanswered.of(token);
        let (released, settled) = inner.links.operate("release", budget, None, |session| {
            let settled = inner.unanswered.settle(&suspects, session)?;
            let held = inner
                .release
                .run(session, &[slot.as_str()], &[token.as_str()]);
            let released = not_ours_if_wrong_type::<i64>(held, 0)? == 1;
            // After a try without an answer the slot was most likely freed by that one.
            Ok((released || session.repeated, settled))
        })?;
        if !settled {
            return Err(not_final());
        }
        inner.unanswered.forget(token);
        Ok(if released {
            Released::Released
        } else {
            Released::NotHeld
        })
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        let inner = &*self.0;
        let suspects = inner.unanswered.of(from);
        let handed = inner
            .links
            .operate("hand over", budget, Some(to), |session| {
                if !inner.unanswered.settle(&suspects, session)? {
                    return Ok(None);
                }
                inner.swap(session, slot, [from, to], ttl).map(Some)
            })?;
        let handed = handed.ok_or_else(not_final)?;
        inner.unanswered.forget(from);
        Ok(handed)
    }

    fn in_doubt(&self, token: &LeaseToken) -> bool {
        !self.0.unanswered.of(token).is_empty()
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        let inner = &*self.0;
        let ask = |session: &mut Session<'_>| {
            let found: Option<(Vec<u8>, i64)> = inner.holder.run(session, &[slot.as_str()], &[])?;
            Ok(found.map(|(token, millis)| {
                // A foreign token need not be text; it is only shown here, in part.
                let token = String::from_utf8_lossy(&token);
                Holder::new(LeaseToken::from_store(&*token), remaining(millis))
            }))
        };
        // Asked by whoever watches the slot, this also registers for its next change.
        if inner.wakeups.is_watched(slot)
            && let Some(Ok(holder)) = inner.wakeups.look(None, budget, ask)
        {
            return Ok(holder);
        }
        inner.links.operate("holder", budget, None, ask)
    }

    fn watch(&self, slot: &SlotName, waker: &Waker) -> Option<Watch> {
        self.0.wakeups.watch(slot, waker)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }
}

/// What `acquire_fenced.lua` answers.
enum Answer {
    Numbered(i64, u64),
    Plain((i64,)),
}

impl redis::FromRedisValue for Answer {
    fn from_redis_value(value: redis::Value) -> Result<Self, redis::ParsingError> {
        match redis::from_redis_value_ref(&value) {
            Ok((answer, number)) => Ok(Self::Numbered(answer, number)),
            Err(_) => redis::from_redis_value(value).map(Self::Plain),
        }
    }
}

/// What the acquiring scripts answer.
fn acquired(answer: i64, fencing: Option<FencingToken>) -> Acquired {
    match answer {
        GRANTED => Acquired::Granted { fencing },
        millis => Acquired::Held {
            remaining: remaining(millis),
        },
    }
}

/// The answer of a script that compares the token. Something in the slot that is not a string is not the
/// token.
fn not_ours_if_wrong_type<T>(answer: Result<T, Failure>, not_ours: T) -> Result<T, Failure> {
    match answer {
        Err(Failure::Answer(error)) if is_wrong_type(&error) => Ok(not_ours),
        answer => answer,
    }
}

fn not_final() -> StoreError {
    StoreError::transient(
        "a command of the token may still be under way, and its connection cannot be ended: \
         the release is not final before `ghost_window` has passed",
    )
}

/// The remaining TTL from `PTTL`'s answer: negative is none.
fn remaining(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}
