//! Taking a slot, and telling who keeps it, in one step.

use guard_core::{Acquired, LeaseToken, LeaseTtl, SlotName};
use redis::cmd;

use crate::connection::exchange::{Exchange, FRESH};
use crate::protocol::answer::Done;
use crate::protocol::failure::Failure;
use crate::protocol::fencing_counter::{counter_life, counter_name};
use crate::protocol::script::Script;
use crate::store::replicas::Replicas;

/// The acquiring scripts.
pub(crate) struct Acquisition {
    fencing: bool,
    replicas: Replicas,
    plain: Script,
    fenced: Script,
}

impl Acquisition {
    pub(crate) fn new(fencing: bool, replicas: Replicas) -> Self {
        Self {
            fencing,
            replicas,
            plain: Script::new(concat!(
                include_str!("../../scripts/role.lua"),
                include_str!("../../scripts/acquire.lua")
            )),
            fenced: Script::new(concat!(
                include_str!("../../scripts/role.lua"),
                include_str!("../../scripts/acquire_fenced.lua"),
                include_str!("../../scripts/number.lua")
            )),
        }
    }

    /// Takes the slot and has it acknowledged, or tells who keeps it. Most looks on the tracked connection find the slot
    /// held, so there the script itself asks for the server's role before it grants, and no command accompanies it.
    pub(crate) fn run(
        &self,
        exchange: &mut Exchange<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        if !exchange.tracked {
            exchange.doubt_role(FRESH);
        }
        let tracked = exchange.reads_again().as_bytes();
        let millis = ttl.as_millis().to_string();
        let millis = millis.as_bytes();
        let acquired = if self.fencing {
            let counter = counter_name(slot);
            let life = counter_life(ttl).to_string();
            let arguments = [token.as_bytes(), millis, life.as_bytes(), tracked];
            exchange.run(&self.fenced, &[slot.as_str(), &counter], &arguments)?
        } else {
            let arguments = [token.as_bytes(), millis, tracked];
            exchange.run(&self.plain, &[slot.as_str()], &arguments)?
        };
        if matches!(acquired, Acquired::Granted { .. }) {
            self.replicas.acknowledge(exchange)?;
        }
        Ok(acquired)
    }

    /// Tries first, where leases are not numbered, the command that takes a free slot in one step, quicker than the
    /// script. What it leaves open (whose is the slot, for how long, is it a token at all) the script answers, and takes
    /// what has come free since.
    pub(crate) fn run_if_free(
        &self,
        exchange: &mut Exchange<'_>,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
    ) -> Result<Acquired, Failure> {
        exchange.doubt_role(FRESH);
        if !self.fencing {
            let mut set = cmd("SET");
            set.arg(slot.as_str()).arg(token.as_bytes());
            set.arg("NX").arg("PX").arg(ttl.as_millis());
            if exchange.ask::<Option<Done>>(&set)?.is_some() {
                self.replicas.acknowledge(exchange)?;
                return Ok(Acquired::Granted { fencing: None });
            }
        }
        self.run(exchange, slot, token, ttl)
    }
}
