//! Slots that the keeper has to free, by when it tries next.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::backoff::Backoff;
use crate::slot::SlotName;
use crate::token::LeaseToken;

/// A slot to be freed of a token, until the token can no longer hold it.
pub(crate) struct PendingRelease {
    pub(crate) slot: SlotName,
    pub(crate) token: LeaseToken,
    /// When the token's TTL has passed, and with it the need; never where slots do not expire, and for a token
    /// that a command under way may still bring: its TTL begins when that is executed.
    pub(crate) give_up: Option<Instant>,
    pub(crate) backoff: Backoff,
}

/// Pending releases by when they are due, in real time; the number keeps apart what is due together. Each
/// goes on for itself: one that cannot be final yet must not keep the slot from others.
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

    pub(crate) fn add(&mut self, due: Instant, release: PendingRelease) {
        self.number += 1;
        self.by_due.insert((due, self.number), release);
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
        let (mut releases, now) = (Releases::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        releases.add(later, second);
        releases.add(now, first);
        assert_eq!(releases.take_due(now).unwrap().token, tokens[0]);
        assert!(releases.take_due(now).is_none());
        assert_eq!((releases.len(), releases.first_due()), (1, Some(later)));
        assert_eq!(releases.take_due(later).unwrap().token, tokens[1]);
    }
}
