//! How a lease is looked after in the background: renewed, and looked at when its slot was changed.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{HeldLease, Phase};
use crate::base::error::StoreError;
use crate::base::slot::SlotName;
use crate::base::time::{Budget, after};
use crate::base::token::LeaseToken;
use crate::caller::lease::LeaseBody as _;
use crate::engine::schedule::{Need, TendedLease};
use crate::engine::tending::Tending;
use crate::store::contract::{LeaseStore, NodeId, Renewed};
use crate::store::holder::Holder;
use crate::store::watch::{Subscriber, Wake, Watch};

/// How often a lease is renewed within its TTL.
const RENEWALS: u32 = 3;
/// How long after entering the keeper looks after a lease first: one that is closed sooner costs nothing.
const EARLY: Duration = Duration::from_millis(100);
/// How seldom at most the holder of a slot that does not expire is asked for, however long the TTL: only its
/// session tells that it is lost.
const LONGEST_UNASKED: Duration = Duration::from_secs(2);

impl<S: LeaseStore> HeldLease<S> {
    /// How often the store is asked for the lease.
    fn rhythm(&self) -> Duration {
        let settings = &self.engine.settings;
        let third = settings.ttl.get() / RENEWALS;
        if settings.expires {
            third
        } else {
            third.min(LONGEST_UNASKED)
        }
    }

    /// When the keeper looks after the lease first.
    pub(super) fn first_due(&self) -> Instant {
        after(self.entered, self.rhythm().min(EARLY))
    }

    /// Whether the guard renews the lease now.
    fn is_renewed(&self) -> bool {
        let settings = &self.engine.settings;
        settings.auto_renew && self.held_for() < settings.max_hold
    }

    /// Has the keeper look after the lease from `due` on, once.
    pub(super) fn enrol(self: &Arc<Self>, due: Instant) {
        let keeper = self.engine.keeper.of(self.node);
        let mut state = self.state.lock();
        if state.tending.is_none() && matches!(state.phase, Phase::Held { .. }) {
            let lease: Weak<Self> = Arc::downgrade(self);
            let number = keeper.enrol(lease, due);
            let renewal = after(self.entered, self.rhythm());
            state.tending = Some(Box::new(Tending::new(keeper, number, renewal)));
        }
    }

    /// Does something with what the keeper knows; `None` once the lease is closed.
    fn with_tending<T>(&self, work: impl FnOnce(&mut Tending) -> T) -> Option<T> {
        self.state.lock().tending.as_deref_mut().map(work)
    }
}

impl<S: LeaseStore> TendedLease for HeldLease<S> {
    fn need(self: Arc<Self>, horizon: Instant) -> Need {
        let Some(deadline) = self.deadline() else {
            return Need::Nothing;
        };
        let expires = self.engine.settings.expires;
        let renews = self.is_renewed() || !expires;
        let asks = |tending: &mut Tending| {
            let watches = expires && tending.takes_up_watch();
            (tending.take_look(), watches, tending.renewal())
        };
        let Some((mut look, watches, renewal)) = self.with_tending(asks) else {
            return Need::Nothing;
        };
        if watches {
            let subscriber = Subscriber::new(&self);
            let mut watch = self.engine.store.watch(&self.slot, &subscriber);
            look |= watch.as_ref().is_some_and(Watch::is_healthy);
            // What is not kept is the store's, and is dropped with the lock free.
            self.with_tending(|tending| tending.keep(watch.take()));
        }
        if look {
            // Both read the slot, and so register for its next change; renewals go together.
            return if renews { Need::Renewal } else { Need::Look };
        }
        if !renews {
            Need::Later(deadline)
        } else if renewal <= horizon {
            Need::Renewal
        } else {
            Need::Later(renewal.min(deadline))
        }
    }

    fn node(&self) -> NodeId {
        self.node
    }

    fn name(&self) -> (SlotName, LeaseToken) {
        (self.slot.clone(), self.token.clone())
    }

    fn renewed(&self, renewal: Budget, answer: Result<Renewed, StoreError>) -> Instant {
        let sent = renewal.sent();
        self.engine.heard(self.node, &answer);
        match answer {
            Ok(Renewed::Renewed) => {
                // Where slots do not expire, a lease that is not renewed is asked for all the same.
                if self.engine.settings.expires || self.is_renewed() {
                    self.prolong(renewal);
                } else {
                    self.confirm(sent, sent);
                }
                let next = after(sent, self.rhythm());
                self.with_tending(|tending| tending.renewed(next));
                next
            }
            Ok(Renewed::NotHeld) => {
                self.lose(self.not_its_own());
                sent
            }
            // Unknown is not lost: the deadline decides.
            Err(error) => {
                log::debug!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: a renewal failed, trying again: {error}", self.slot
                );
                let (now, longest) = (self.engine.clock.now(), self.rhythm() / 2);
                let plan = |tending: &mut Tending| tending.renewal_failed(now, &error, longest);
                self.with_tending(plan).unwrap_or(now)
            }
        }
    }

    fn seen(&self, answer: Result<Option<Holder>, StoreError>) -> Instant {
        self.engine.heard(self.node, &answer);
        let now = self.engine.clock.now();
        match answer {
            Ok(holder) => {
                self.with_tending(Tending::looked);
                if holder.is_none_or(|holder| *holder.token() != self.token) {
                    self.lose("a look found another token in its slot, or none");
                }
                now
            }
            // Nobody knows.
            Err(error) => {
                log::debug!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: a look after a change failed, trying again: {error}", self.slot
                );
                self.with_tending(|tending| tending.look_failed(now, &error))
                    .unwrap_or(now)
            }
        }
    }

    fn time_left(&self) -> Duration {
        self.remaining()
    }

    fn end_by_force(&self) {
        self.lose("it was ended by force");
    }
}

impl<S: LeaseStore> Wake for HeldLease<S> {
    fn wake(&self) {
        if let Some((keeper, number)) = self.with_tending(Tending::want_look).flatten() {
            keeper.expedite(number);
        }
    }
}
