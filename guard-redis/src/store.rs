//! The store contract in commands and scripts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, FencingToken, HandedOver, Holder, LeaseStore, LeaseToken,
    LeaseTtl, NodeId, Released, Renewed, SlotName, StoreError, Waker, Watch,
};

use crate::builder::Wakeups;
use crate::error::is_wrong_type;
use crate::fence::{counter_life, counter_name};
use crate::replicas::Replicas;
use crate::script::Script;
use crate::servers::Servers;
use crate::session::{Failure, Session};
use crate::take::{Take, remaining};
use crate::unanswered::Unanswered;

/// The longest TTL, about 146 million years: the server adds it to its clock, and both are kept in signed
/// 64-bit milliseconds.
const MAX_TTL: Duration = Duration::from_millis(1 << 62);

/// How many leases are renewed by one script: few enough that nobody else waits long for the server.
const RENEWED_TOGETHER: usize = 100;

/// Leases in Redis. Clones are handles of the same connections.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    servers: Servers,
    unanswered: Arc<Unanswered>,
    capabilities: Capabilities,
    take: Arc<Take>,
    replicas: Replicas,
    renew: Script,
    release: Script,
    hand_over: Script,
    hand_over_fenced: Script,
    holder: Script,
}

impl RedisStore {
    pub(crate) fn new(
        servers: Servers,
        unanswered: Arc<Unanswered>,
        capabilities: Capabilities,
        take: Arc<Take>,
        replicas: Replicas,
    ) -> Self {
        Self(Arc::new(Inner {
            servers,
            unanswered,
            capabilities,
            take,
            replicas,
            renew: Script::new(include_str!("../scripts/renew.lua")),
            release: Script::new(include_str!("../scripts/release.lua")),
            hand_over: Script::new(include_str!("../scripts/hand_over.lua")),
            hand_over_fenced: Script::new(concat!(
                include_str!("../scripts/hand_over_fenced.lua"),
                include_str!("../scripts/number.lua")
            )),
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
    /// Does an idempotent operation on a connection of the pool, unless the tracked connection has `answered`
    /// it.
    fn operate<T>(
        &self,
        answered: Option<Result<T, StoreError>>,
        slot: &SlotName,
        name: &'static str,
        budget: Budget,
        brings: Option<&LeaseToken>,
        work: impl Fn(&mut Session<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let doubt = match answered {
            None => false,
            Some(Err(error)) if error.is_unknown() => true,
            Some(result) => return result,
        };
        let result = self.servers.operate(slot, name, budget, brings, work);
        // What failed there may still take effect: without an answer to this it stays unknown.
        result.map_err(|error| {
            if doubt {
                error.with_unknown_outcome()
            } else {
                error
            }
        })
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
            self.replicas.acknowledge(session)?;
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
            let arguments = [from, to, &millis, session.reads_again()];
            let held = self.hand_over.run(session, &[slot.as_str()], &arguments);
            return Ok(match not_ours_if_wrong_type(held, 0)? {
                1 => HandedOver::Granted { fencing: None },
                _ => HandedOver::NotHeld,
            });
        }
        let counter = counter_name(slot);
        let life = counter_life(ttl).to_string();
        let keys = [slot.as_str(), &counter];
        let arguments = [from, to, &millis, &life, session.reads_again()];
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
        leases: &[&(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Vec<Result<Renewed, StoreError>>, StoreError> {
        let Some((first, _)) = leases.first() else {
            return Ok(Vec::new());
        };
        let counters: Vec<String> = if self.capabilities.fencing {
            leases.iter().map(|(slot, _)| counter_name(slot)).collect()
        } else {
            Vec::new()
        };
        let slots = leases.iter().map(|(slot, _)| slot.as_str());
        let keys: Vec<&str> = slots.chain(counters.iter().map(String::as_str)).collect();
        let (millis, life) = (ttl.as_millis().to_string(), counter_life(ttl).to_string());
        let tokens = leases.iter().map(|(_, token)| token.as_str());

        let work = |session: &mut Session<'_>| {
            let settings = [millis.as_str(), &life, session.reads_again()];
            let arguments: Vec<&str> = settings.into_iter().chain(tokens.clone()).collect();
            let answers: Vec<i64> = self.renew.run(session, &keys, &arguments)?;
            if answers.contains(&0) {
                session.confirm()?;
            }
            let acknowledged = if answers.contains(&1) {
                self.replicas.acknowledge(session)
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
        let watching = leases
            .iter()
            .find_map(|(slot, _)| self.servers.watching(slot));
        let answered = watching.and_then(|server| server.wakeups.renew(budget, work));
        self.operate(answered, first, "renew", budget, None, work)
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
        let take = |session: &mut Session<'_>| inner.take.run(session, slot, token, ttl);
        let watching = inner.servers.watching(slot);
        let answered =
            watching.and_then(|server| server.wakeups.look(slot, Some(token), budget, take));
        inner.operate(answered, slot, "acquire", budget, Some(token), |session| {
            inner.take.run_if_free(session, slot, token, ttl)
        })
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let lease = (slot.clone(), token.clone());
        let mut answers = self.0.renew_together(&[&lease], ttl, budget)?.into_iter();
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
        let inner = &*self.0;
        // In an order in which those that one script can renew stand together.
        let mut order: Vec<(u16, usize)> = leases
            .iter()
            .enumerate()
            .map(|(index, (slot, _))| (inner.servers.group(slot), index))
            .collect();
        order.sort_unstable();
        let mut results = vec![Err(StoreError::permanent("renew: no answer")); leases.len()];
        for group in order.chunk_by(|(one, _), (other, _)| one == other) {
            for places in group.chunks(RENEWED_TOGETHER) {
                let together: Vec<_> = places.iter().map(|&(_, index)| &leases[index]).collect();
                let answers = inner
                    .renew_together(&together, ttl, budget)
                    .unwrap_or_else(|error| vec![Err(error); places.len()]);
                for (answer, &(_, index)) in answers.into_iter().zip(places) {
                    results[index] = answer;
                }
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
        let (released, settled) =
            inner
                .servers
                .operate(slot, "release", budget, None, |session| {
                    let settled = inner.unanswered.settle(&suspects, session)?;
                    let held = inner
                        .release
                        .run(session, &[slot.as_str()], &[token.as_str()]);
                    let released = not_ours_if_wrong_type::<i64>(held, 0)? == 1;
                    if !released {
                        session.confirm()?;
                    }
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
        let work = |session: &mut Session<'_>| {
            if !inner.unanswered.settle(&suspects, session)? {
                return Ok(None);
            }
            let handed = inner.swap(session, slot, [from, to], ttl)?;
            if handed == HandedOver::NotHeld {
                session.confirm()?;
            }
            Ok(Some(handed))
        };
        // On the tracked connection it does not wake this process, which is told of the slot's changes.
        let watching = if suspects.is_empty() {
            inner.servers.watching(slot)
        } else {
            None
        };
        let answered = watching.and_then(|server| server.wakeups.change(Some(to), budget, work));
        let handed = inner.operate(answered, slot, "hand over", budget, Some(to), work)?;
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
        if let Some(server) = inner.servers.watching(slot)
            && let Some(Ok(holder)) = server.wakeups.look(slot, None, budget, ask)
        {
            return Ok(holder);
        }
        inner.servers.operate(slot, "holder", budget, None, ask)
    }

    fn watch(&self, slot: &SlotName, waker: &Waker) -> Option<Watch> {
        self.0.servers.watch(slot, waker)
    }

    fn node(&self, slot: &SlotName) -> NodeId {
        self.0.servers.node(slot)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
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
