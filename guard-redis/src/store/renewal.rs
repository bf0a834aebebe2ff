//! Giving many leases a fresh TTL.

use std::time::Duration;

use guard_core::{LeaseToken, LeaseTtl, Renewed, SlotName, StoreError};
use redis::Cmd;

use crate::connection::exchange::Exchange;
use crate::protocol::failure::{Failure, unexpected};
use crate::protocol::fencing_counter::{counter_life, counter_name};
use crate::protocol::script::Script;
use crate::store::replicas::Replicas;

/// How many leases are renewed by one script: few enough that nobody else waits long for the server.
pub(crate) const RENEWED_TOGETHER: usize = 100;

/// Leases that one script can renew.
pub(crate) type Bundle<'a> = Vec<&'a (SlotName, LeaseToken)>;

/// What came of a bundle, in the order of its leases; an error if the server refused its script.
pub(crate) type Renewals = Result<Vec<Result<Renewed, StoreError>>, StoreError>;

/// The renewing script.
pub(crate) struct Renewal {
    fencing: bool,
    replicas: Replicas,
    script: Script,
}

impl Renewal {
    pub(crate) fn new(fencing: bool, replicas: Replicas) -> Self {
        Self {
            fencing,
            replicas,
            script: Script::new(include_str!("../../scripts/renew.lua")),
        }
    }

    /// Renews bundles, each by one script, and has them acknowledged together. All scripts are sent before the first
    /// answer is read, so however many there are they take one round trip. That the server refuses the only one is a
    /// failure, after which another server may be asked.
    pub(crate) fn run(
        &self,
        exchange: &mut Exchange<'_>,
        bundles: &[Bundle<'_>],
        ttl: LeaseTtl,
    ) -> Result<Vec<Renewals>, Failure> {
        let (millis, life) = (ttl.as_millis().to_string(), counter_life(ttl).to_string());
        let settings = [&millis, &life, exchange.reads_again()];
        let calls = bundles.iter().map(|bundle| self.call(bundle, settings));
        let calls: Vec<Cmd> = calls.collect();
        let calls: Vec<&Cmd> = calls.iter().collect();
        // A replica that renews a lease would prolong what the master ends.
        exchange.doubt_role(Duration::ZERO);
        let mut answers = exchange.run_all::<Vec<bool>>(&self.script, &calls)?;
        if answers.len() == 1
            && let Some(Err(failure)) = answers.pop_if(|answer| answer.is_err())
        {
            return Err(failure);
        }
        let answered = answers.iter().zip(bundles);
        for (held, bundle) in answered.filter_map(|(it, bundle)| Some((it.as_ref().ok()?, bundle)))
        {
            if held.len() != bundle.len() {
                return Err(unexpected());
            }
        }
        let said = |what| {
            let mut answers = answers.iter().flatten().flatten();
            answers.any(|&held| held == what)
        };
        if said(false) {
            exchange.confirm()?;
        }
        let acknowledged = if said(true) {
            self.replicas.acknowledge(exchange)
        } else {
            Ok(())
        };
        let renewed = match acknowledged {
            Ok(()) => Ok(Renewed::Renewed),
            // A lease that is not held is so all the same.
            Err(failure @ Failure::Unreplicated(_)) => Err(failure.into_store_error("renew")),
            Err(failure) => return Err(failure),
        };
        let outcome = |held| {
            if held {
                renewed.clone()
            } else {
                Ok(Renewed::NotHeld)
            }
        };
        let renewals = answers.into_iter().map(|answer| {
            let held = answer.map_err(|failure| failure.into_store_error("renew"))?;
            Ok(held.into_iter().map(outcome).collect())
        });
        Ok(renewals.collect())
    }

    /// The script that renews a bundle, with the settings of all.
    fn call(&self, bundle: &Bundle<'_>, settings: [&str; 3]) -> Cmd {
        let counters: Vec<String> = if self.fencing {
            bundle.iter().map(|(slot, _)| counter_name(slot)).collect()
        } else {
            Vec::new()
        };
        let slots = bundle.iter().map(|(slot, _)| slot.as_str());
        let keys: Vec<&str> = slots.chain(counters.iter().map(String::as_str)).collect();
        let tokens = bundle.iter().map(|(_, token)| token.as_bytes());
        let arguments: Vec<&[u8]> = settings
            .map(str::as_bytes)
            .into_iter()
            .chain(tokens)
            .collect();
        self.script.call(&keys, &arguments)
    }
}
