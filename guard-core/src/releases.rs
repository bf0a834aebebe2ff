//! Slots that the keeper has to free, by when it tries next.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::backoff::Backoff;
use crate::slot::SlotName;
use crate::token::LeaseToken;

/// A slot to be freed of tokens, until they can no longer hold it. The order matters: while a command that
/// passes the slot from one token to another may still take effect, freeing the other first achieves nothing.
pub(crate) struct PendingRelease {
    pub(crate) slot: SlotName,
    pub(crate) tokens: VecDeque<PendingToken>,
    pub(crate) backoff: Backoff,
}

/// A token of which a slot has to be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingToken {
    pub(crate) token: LeaseToken,
    /// When the token's TTL has passed, and with it the need; never for a token that a command under way may
    /// still bring: its TTL begins when that is executed.
    pub(crate) give_up: Option<Instant>,
}

/// Pending releases by when they are due, in real time; the number keeps apart what is due together. A slot
/// has at most one.
#[derive(Default)]
pub(crate) struct Releases {
    number: u64,
    by_due: BTreeMap<(Instant, u64), PendingRelease>,
}

impl Releases {
    pub(crate) fn len(&self) -> usize {
        self.by_due.len()
    }

    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes the first release that is due by `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<PendingRelease> {
        let first = self.by_due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Adds a token after those that are pending for its slot.
    pub(crate) fn add(&mut self, slot: &SlotName, token: PendingToken, now: Instant) {
        if let Some(key) = self.pending(slot)
            && let Some(release) = self.by_due.get_mut(&key)
        {
            release.tokens.push_back(token);
            return;
        }
        self.insert(
            now,
            PendingRelease {
                slot: slot.clone(),
                tokens: VecDeque::from([token]),
                backoff: Backoff::default(),
            },
        );
    }

    /// Puts back a release that was taken, before what came for its slot meanwhile.
    pub(crate) fn put_back(&mut self, due: Instant, mut release: PendingRelease) {
        if let Some(key) = self.pending(&release.slot)
            && let Some(later) = self.by_due.remove(&key)
        {
            release.tokens.extend(later.tokens);
        }
        self.insert(due, release);
    }

    fn insert(&mut self, due: Instant, release: PendingRelease) {
        self.number += 1;
        self.by_due.insert((due, self.number), release);
    }

    fn pending(&self, slot: &SlotName) -> Option<(Instant, u64)> {
        let mut releases = self.by_due.iter();
        releases.find_map(|(key, release)| (release.slot == *slot).then_some(*key))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::SandboxIsolationKey;
    use crate::slot::KeyPrefix;
    use crate::token::OwnerLabel;

    #[test]
    fn tokens_of_a_slot_are_released_in_the_order_in_which_they_came() {
        let slot = KeyPrefix::new("p")
            .unwrap()
            .slot(&SandboxIsolationKey::global());
        let [a, b, c] = [(); 3].map(|()| PendingToken {
            token: LeaseToken::generate(&OwnerLabel::default()),
            give_up: None,
        });
        let (mut releases, now) = (Releases::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        releases.add(&slot, a.clone(), now);
        releases.add(&slot, b.clone(), now);
        let taken = releases.take_due(now).unwrap();
        releases.add(&slot, c.clone(), now);
        releases.put_back(later, taken);
        assert!(releases.take_due(now).is_none());
        assert_eq!(releases.len(), 1);
        assert_eq!(releases.take_due(later).unwrap().tokens, [a, b, c]);
    }
}
