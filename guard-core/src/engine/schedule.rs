//! What a guard does in the background, and when: the leases that it looks after, and the slots that it still has to
//! free.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::base::error::StoreError;
use crate::base::slot::SlotName;
use crate::base::time::{Budget, after};
use crate::base::token::LeaseToken;
use crate::engine::backoff::Backoff;
use crate::store::contract::{NodeId, Renewed};
use crate::store::holder::Holder;

/// A lease that is looked after.
pub(crate) trait TendedLease: Send + Sync {
    /// What the lease needs now; a renewal that is due by `horizon` is brought forward.
    fn need(self: Arc<Self>, horizon: Instant) -> Need;

    fn node(&self) -> NodeId;

    fn name(&self) -> (SlotName, LeaseToken);

    /// Takes the answer to a renewal; says when the lease is due again.
    fn renewed(&self, operation: Budget, answer: Result<Renewed, StoreError>) -> Instant;

    /// Takes the answer to a look at the slot; says when the lease is due again.
    fn seen(&self, answer: Result<Option<Holder>, StoreError>) -> Instant;

    /// How long its holder may still count on it.
    fn time_left(&self) -> Duration;

    /// Ends the lease, whose slot was freed by force through its own guard.
    fn end_by_force(&self);
}

/// A lease that is due, with its number.
pub(crate) type Due = (u64, Arc<dyn TendedLease>);

/// What a lease needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Nothing any more: it is closed or lost.
    Nothing,
    /// Nothing before this moment.
    Later(Instant),
    /// A renewal.
    Renewal,
    /// A look at its slot.
    Look,
}

/// A slot to be freed of a token, until the token can no longer hold it.
pub(crate) struct PendingRelease {
    pub(crate) slot: SlotName,
    pub(crate) token: LeaseToken,
    /// When the token's TTL has passed, and with it the need; never where slots do not expire, and for a token
    /// that a command under way may still bring: its TTL begins when that is executed.
    pub(crate) give_up: Option<Instant>,
    pub(crate) backoff: Backoff,
}

/// What is due.
pub(crate) enum Task {
    /// Leases, earliest first.
    Tend(Vec<Due>),
    Release(PendingRelease),
}

/// Leases by number, with their due times in the guard's clock; and releases, with theirs in real time.
#[derive(Default)]
pub(crate) struct Schedule {
    number: u64,
    leases: HashMap<u64, Entry>,
    /// Each lease has one due time.
    lease_dues: BTreeSet<(Instant, u64)>,
    /// The number keeps apart what is due together. Each goes on for itself: one that cannot be final yet must not
    /// keep the slot from others.
    releases: BTreeMap<(Instant, u64), PendingRelease>,
}

struct Entry {
    lease: Weak<dyn TendedLease>,
    due: Instant,
    /// Whether the lease was made due while it was looked after: then that stands.
    hurried: bool,
}

impl Schedule {
    /// Takes a lease in, due at `due`; answers its number, which is never zero.
    pub(crate) fn enrol(&mut self, lease: Weak<dyn TendedLease>, due: Instant) -> u64 {
        self.number += 1;
        let entry = Entry {
            lease,
            due,
            hurried: false,
        };
        self.leases.insert(self.number, entry);
        self.lease_dues.insert((due, self.number));
        self.number
    }

    /// Makes a lease due at `due`, whatever was planned for it.
    pub(crate) fn expedite(&mut self, number: u64, due: Instant) {
        self.set_due(number, due, true);
    }

    /// Plans when a lease that was looked after is due again.
    pub(crate) fn plan(&mut self, number: u64, due: Instant) {
        self.set_due(number, due, false);
    }

    fn set_due(&mut self, number: u64, due: Instant, hurried: bool) {
        if let Some(entry) = self.leases.get_mut(&number)
            && (hurried || !entry.hurried)
        {
            entry.hurried = hurried;
            self.lease_dues.remove(&(entry.due, number));
            self.lease_dues.insert((due, number));
            entry.due = due;
        }
    }

    pub(crate) fn dismiss(&mut self, number: u64) {
        if let Some(entry) = self.leases.remove(&number) {
            self.lease_dues.remove(&(entry.due, number));
        }
    }

    pub(crate) fn add_release(&mut self, due: Instant, release: PendingRelease) {
        self.number += 1;
        self.releases.insert((due, self.number), release);
    }

    /// How many slots are still to be freed.
    pub(crate) fn releases(&self) -> usize {
        self.releases.len()
    }

    /// What is due: leases before releases, and with the first lease all that are due within `together`. Leases stay
    /// in the schedule, those that are gone leave it.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        clock_now: Instant,
        together: Duration,
    ) -> Option<Task> {
        if self
            .lease_dues
            .first()
            .is_some_and(|(due, _)| *due <= clock_now)
        {
            return Some(Task::Tend(self.leases_due(after(clock_now, together))));
        }
        let first = self.releases.first_entry()?;
        (first.key().0 <= now).then(|| Task::Release(first.remove()))
    }

    /// When something is due next, in real time; `None` if nothing ever is.
    pub(crate) fn next_due(&self, now: Instant, clock_now: Instant) -> Option<Instant> {
        let lease = self.lease_dues.first();
        let lease = lease.map(|(due, _)| after(now, due.saturating_duration_since(clock_now)));
        let release = self.releases.first_key_value().map(|((due, _), _)| *due);
        lease.into_iter().chain(release).min()
    }

    fn leases_due(&mut self, by: Instant) -> Vec<Due> {
        let due = self.lease_dues.iter().take_while(|(due, _)| *due <= by);
        let numbers: Vec<u64> = due.map(|(_, number)| *number).collect();
        let mut leases = Vec::with_capacity(numbers.len());
        for number in numbers {
            let entry = self.leases.get_mut(&number);
            let lease = entry.and_then(|entry| {
                entry.hurried = false;
                entry.lease.upgrade()
            });
            match lease {
                Some(lease) => leases.push((number, lease)),
                None => self.dismiss(number),
            }
        }
        leases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::SandboxIsolationKey;
    use crate::base::slot::KeyPrefix;
    use crate::base::token::OwnerLabel;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_due_first_is_taken_first_and_nothing_before_its_time() {
        let slot = KeyPrefix::new("p")
            .unwrap()
            .slot(&SandboxIsolationKey::global());
        let release = || PendingRelease {
            slot: slot.clone(),
            token: LeaseToken::generate(&OwnerLabel::default()),
            give_up: None,
            backoff: Backoff::default(),
        };
        let (first, second) = (release(), release());
        let tokens = [first.token.clone(), second.token.clone()];
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let later = now + SECOND;
        schedule.add_release(later, second);
        schedule.add_release(now, first);
        let mut next = |at| match schedule.next(at, now, SECOND) {
            Some(Task::Release(release)) => Ok(release.token),
            _ => Err(schedule.next_due(at, now)),
        };
        assert_eq!(next(now), Ok(tokens[0].clone()));
        assert_eq!(next(now), Err(Some(later)));
        assert_eq!(next(later), Ok(tokens[1].clone()));
        assert_eq!(next(later), Err(None));
    }
}
