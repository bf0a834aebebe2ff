//! The leases in the keeper's care, by when it has to look after them next.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::slot::SlotName;
use crate::store::{Holder, NodeId, Renewed};
use crate::token::LeaseToken;
use crate::ttl::Budget;

/// A lease in the keeper's care.
pub(crate) trait Ward: Send + Sync {
    /// What the lease needs now; a renewal that is due by `horizon` is brought forward.
    fn need(self: Arc<Self>, horizon: Instant) -> Need;

    fn node(&self) -> NodeId;

    fn name(&self) -> (SlotName, LeaseToken);

    /// Takes the answer to a renewal; says when the lease is due again.
    fn renewed(&self, operation: Budget, answer: Result<Renewed, StoreError>) -> Instant;

    /// How long its holder may still count on it.
    fn time_left(&self) -> Duration;

    /// Ends the lease, whose slot was freed by force through its own guard.
    fn end_by_force(&self);

    /// Takes the answer to a look at the slot; says when the lease is due again.
    fn seen(&self, answer: Result<Option<Holder>, StoreError>) -> Instant;
}

/// A lease in care, with its number.
pub(crate) type Due = (u64, Arc<dyn Ward>);

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

/// Leases by number, and their numbers by when they are due, in the guard's clock. Each has one due time.
#[derive(Default)]
pub(crate) struct Wards {
    number: u64,
    entries: HashMap<u64, Entry>,
    dues: BTreeSet<(Instant, u64)>,
}

struct Entry {
    lease: Weak<dyn Ward>,
    due: Instant,
    /// Whether the lease was made due while it was looked after: then that stands.
    hurried: bool,
}

impl Wards {
    /// Takes a lease into care; answers its number, which is never zero.
    pub(crate) fn enrol(&mut self, lease: Weak<dyn Ward>, due: Instant) -> u64 {
        self.number += 1;
        let hurried = false;
        self.entries.insert(
            self.number,
            Entry {
                lease,
                due,
                hurried,
            },
        );
        self.dues.insert((due, self.number));
        self.number
    }

    /// Makes a lease due at `due`, whatever was planned for it.
    pub(crate) fn expedite(&mut self, number: u64, due: Instant) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.hurried = true;
            self.dues.remove(&(entry.due, number));
            self.dues.insert((due, number));
            entry.due = due;
        }
    }

    /// Plans when a lease that was looked after is due again.
    pub(crate) fn plan(&mut self, number: u64, due: Instant) {
        if let Some(entry) = self.entries.get_mut(&number)
            && !entry.hurried
        {
            self.dues.remove(&(entry.due, number));
            self.dues.insert((due, number));
            entry.due = due;
        }
    }

    pub(crate) fn dismiss(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.dues.remove(&(entry.due, number));
        }
    }

    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// The leases that are due by `now`, earliest first. They stay in care; those that are gone leave it.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Due> {
        let due = self.dues.iter().take_while(|(due, _)| *due <= now);
        let numbers: Vec<u64> = due.map(|(_, number)| *number).collect();
        let mut leases = Vec::with_capacity(numbers.len());
        for number in numbers {
            let entry = self.entries.get_mut(&number);
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
