//! The store contract in commands and scripts.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, FencingToken, HandedOver, Holder, LeaseStore, LeaseToken,
    LeaseTtl, NodeId, Released, Renewed, SlotName, StoreError, Subscriber, Watch,
};

use crate::connection::exchange::Exchange;
use crate::connection::unanswered::Unanswered;
use crate::protocol::error::is_wrong_type;
use crate::protocol::failure::Failure;
use crate::protocol::fencing_counter::{counter_life, counter_name};
use crate::protocol::lease_answers::Found;
use crate::protocol::script::Script;
use crate::store::acquisition::Acquisition;
use crate::store::renewal::{Bundle, RENEWED_TOGETHER, Renewal, Renewals};
use crate::store::replicas::Replicas;
use crate::topology::contract::Topology;
use crate::wakeups::server_wakeups::Wakeups;

/// The longest TTL, about 146 million years: the server adds it to its clock, and both are kept in signed
/// 64-bit milliseconds.
const MAX_TTL: Duration = Duration::from_millis(1 << 62);

/// Leases in Redis. Clones are handles of the same connections.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    topology: Arc<dyn Topology>,
    unanswered: Arc<Unanswered>,
    capabilities: Capabilities,
    acquisition: Acquisition,
    replicas: Replicas,
    renew: Renewal,
    release: Script,
    hand_over: Script,
    hand_over_fenced: Script,
    holder: Script,
}

impl RedisStore {
    pub(crate) fn new(
        topology: Arc<dyn Topology>,
        unanswered: Arc<Unanswered>,
        capabilities: Capabilities,
        min_replicas: u32,
    ) -> Self {
        let replicas = Replicas(min_replicas);
        let fencing = capabilities.fencing;
        Self(Arc::new(Inner {
            topology,
            unanswered,
            capabilities,
            acquisition: Acquisition::new(fencing, replicas),
            replicas,
            renew: Renewal::new(fencing, replicas),
            release: Script::new(include_str!("../../scripts/release.lua")),
            hand_over: Script::new(include_str!("../../scripts/hand_over.lua")),
            hand_over_fenced: Script::new(concat!(
                include_str!("../../scripts/hand_over_fenced.lua"),
                include_str!("../../scripts/number.lua")
            )),
            holder: Script::new(include_str!("../../scripts/holder.lua")),
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
        work: impl Fn(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let doubt = match answered {
            None => false,
            Some(Err(error)) if error.is_unknown() => true,
            Some(result) => return result,
        };
        let result = self.topology.ask(slot, name, budget, brings, work);
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
        exchange: &mut Exchange<'_>,
        slot: &SlotName,
        tokens: [&LeaseToken; 2],
        ttl: LeaseTtl,
    ) -> Result<HandedOver, Failure> {
        let handed = self.swap_here(exchange, slot, tokens, ttl)?;
        if matches!(handed, HandedOver::Granted { .. }) {
            self.replicas.acknowledge(exchange)?;
        }
        Ok(handed)
    }

    fn swap_here(
        &self,
        exchange: &mut Exchange<'_>,
        slot: &SlotName,
        tokens: [&LeaseToken; 2],
        ttl: LeaseTtl,
    ) -> Result<HandedOver, Failure> {
        let [from, to] = tokens.map(LeaseToken::as_bytes);
        let (millis, read_again) = (ttl.as_millis().to_string(), exchange.reads_again());
        let (millis, read_again) = (millis.as_bytes(), read_again.as_bytes());
        if !self.capabilities.fencing {
            let arguments = [from, to, millis, read_again];
            let held = exchange.run(&self.hand_over, &[slot.as_str()], &arguments);
            return Ok(if not_ours_if_wrong_type(held)? {
                HandedOver::Granted { fencing: None }
            } else {
                HandedOver::NotHeld
            });
        }
        let counter = counter_name(slot);
        let life = counter_life(ttl).to_string();
        let keys = [slot.as_str(), &counter];
        let arguments = [from, to, millis, life.as_bytes(), read_again];
        let number: Option<FencingToken> =
            exchange.run(&self.hand_over_fenced, &keys, &arguments)?;
        Ok(match number {
            None => HandedOver::NotHeld,
            fencing => HandedOver::Granted { fencing },
        })
    }

    /// Renews leases of the same server in bundles: see [`Renewal::run`].
    fn renew_bundles(
        &self,
        bundles: &[Bundle<'_>],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Vec<Renewals>, StoreError> {
        let leases = || bundles.iter().flatten();
        let Some((first, _)) = leases().next() else {
            return Ok(Vec::new());
        };
        let work = |exchange: &mut Exchange<'_>| self.renew.run(exchange, bundles, ttl);
        // On the tracked connection a renewal also registers for the slot's next change, and is not told
        // of its own.
        let watching = leases().find_map(|(slot, _)| self.topology.watching(slot));
        let answered = watching.and_then(|server| server.wakeups.renew(budget, work));
        self.operate(answered, first, "renew", budget, None, work)
    }

    /// Renews what one server has, by as many scripts as it takes. A bundle that the server refuses is asked for again by
    /// itself: its hash slot may have moved.
    fn renew_on_one_server(
        &self,
        bundles: &[Bundle<'_>],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        let alone = |bundle: &Bundle<'_>| {
            let answers = self.renew_bundles(slice::from_ref(bundle), ttl, budget);
            match answers.map(|mut answers| answers.pop()) {
                Ok(Some(Ok(renewed))) => renewed,
                Ok(Some(Err(refusal))) => vec![Err(refusal); bundle.len()],
                Ok(None) => vec![Err(no_answer()); bundle.len()],
                Err(error) => vec![Err(error); bundle.len()],
            }
        };
        if let [bundle] = bundles {
            return alone(bundle);
        }
        match self.renew_bundles(bundles, ttl, budget) {
            Ok(answers) => {
                let answers = answers.into_iter().zip(bundles);
                let renewals =
                    answers.map(|(answer, bundle)| answer.unwrap_or_else(|_| alone(bundle)));
                renewals.flatten().collect()
            }
            Err(error) => vec![Err(error); bundles.iter().map(Vec::len).sum()],
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::permanent("renew: no answer")
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
        let take = |exchange: &mut Exchange<'_>| inner.acquisition.run(exchange, slot, token, ttl);
        let watching = inner.topology.watching(slot);
        let answered =
            watching.and_then(|server| server.wakeups.look(slot, Some(token), budget, take));
        inner.operate(answered, slot, "acquire", budget, Some(token), |exchange| {
            inner.acquisition.run_if_free(exchange, slot, token, ttl)
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
        let mut answers = self.0.renew_on_one_server(&[vec![&lease]], ttl, budget);
        answers.pop().unwrap_or_else(|| Err(no_answer()))
    }

    fn renew_many(
        &self,
        leases: &[(SlotName, LeaseToken)],
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Vec<Result<Renewed, StoreError>> {
        let inner = &*self.0;
        // In an order in which those of one server stand together, and of these those that one script can renew.
        let mut order: Vec<_> = leases
            .iter()
            .enumerate()
            .map(|(index, (slot, _))| {
                (inner.topology.node(slot), inner.topology.group(slot), index)
            })
            .collect();
        order.sort_unstable();
        let mut results = vec![Err(no_answer()); leases.len()];
        for of_server in order.chunk_by(|(one, ..), (other, ..)| one == other) {
            let bundles: Vec<Bundle<'_>> = of_server
                .chunk_by(|(_, one, _), (_, other, _)| one == other)
                .flat_map(|group| group.chunks(RENEWED_TOGETHER))
                .map(|places| places.iter().map(|&(.., index)| &leases[index]).collect())
                .collect();
            let answers = inner.renew_on_one_server(&bundles, ttl, budget);
            for (answer, &(.., index)) in answers.into_iter().zip(of_server) {
                results[index] = answer;
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
        let suspects = inner.unanswered.of(token, budget);
        let (released, settled) =
            inner
                .topology
                .ask(slot, "release", budget, None, |exchange| {
                    let settled = inner.unanswered.settle(&suspects, exchange)?;
                    let held = exchange.run(&inner.release, &[slot.as_str()], &[token.as_bytes()]);
                    let released = not_ours_if_wrong_type(held)?;
                    if !released {
                        exchange.confirm()?;
                    }
                    // After a try without an answer the slot was most likely freed by that one.
                    Ok((released || exchange.repeated, settled))
                })?;
        if !settled || !inner.unanswered.forget(token, &suspects) {
            return Err(not_final());
        }
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
        let suspects = inner.unanswered.of(from, budget);
        if inner.unanswered.is_under_way(from) {
            return Err(not_final());
        }
        let work = |exchange: &mut Exchange<'_>| {
            if !inner.unanswered.settle(&suspects, exchange)? {
                return Ok(None);
            }
            let handed = inner.swap(exchange, slot, [from, to], ttl)?;
            if handed == HandedOver::NotHeld {
                exchange.confirm()?;
            }
            Ok(Some(handed))
        };
        // On the tracked connection it does not wake this process, which is told of the slot's changes.
        let watching = if suspects.is_empty() {
            inner.topology.watching(slot)
        } else {
            None
        };
        let answered = watching.and_then(|server| server.wakeups.change(Some(to), budget, work));
        let handed = inner.operate(answered, slot, "hand over", budget, Some(to), work)?;
        let handed = handed.ok_or_else(not_final)?;
        if !inner.unanswered.forget(from, &suspects) {
            return Err(not_final().with_unknown_outcome());
        }
        Ok(handed)
    }

    fn in_doubt(&self, token: &LeaseToken) -> bool {
        self.0.unanswered.has(token)
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        let inner = &*self.0;
        let ask = |exchange: &mut Exchange<'_>| {
            let found: Option<Found> = exchange.run(&inner.holder, &[slot.as_str()], &[])?;
            Ok(found.map(|Found(holder)| holder))
        };
        // Asked by whoever watches the slot, this also registers for its next change.
        if let Some(server) = inner.topology.watching(slot)
            && let Some(Ok(holder)) = server.wakeups.look(slot, None, budget, ask)
        {
            return Ok(holder);
        }
        inner.topology.ask(slot, "holder", budget, None, ask)
    }

    fn watch(&self, slot: &SlotName, subscriber: &Subscriber) -> Option<Watch> {
        Arc::clone(&self.0.topology).watch(slot, subscriber)
    }

    fn node(&self, slot: &SlotName) -> NodeId {
        self.0.topology.node(slot)
    }

    fn cut_off(&self) {
        self.0.topology.cut_off();
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities.clone()
    }
}

/// The answer of a script that compares the token. Something in the slot that is not a string is not the
/// token.
fn not_ours_if_wrong_type(answer: Result<bool, Failure>) -> Result<bool, Failure> {
    match answer {
        Err(Failure::Answer(error)) if is_wrong_type(&error) => Ok(false),
        answer => answer,
    }
}

fn not_final() -> StoreError {
    StoreError::transient(
        "a command of the token may still be under way: the release is not final before it is answered, its \
         connection can be ended, or `ghost_window` has passed",
    )
}
