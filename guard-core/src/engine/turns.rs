//! Who may keep a slot, for how long, and when it is left to others: asked at each close.

use std::time::{Duration, Instant};

use crate::base::time::after;
use crate::caller::config::Settings;

/// How long the next entry of this process leaves a freed slot to other processes that were seen to want
/// it, unless its watch wakes it.
const YIELD: Duration = Duration::from_millis(5);
/// How long a process that does not know of others keeps a slot at most without leaving it to them.
const LONGEST_KEPT: Duration = Duration::from_secs(1);
/// How long a slot is left to other processes that this one does not know of, now and then. Longer than a
/// waiter of theirs rests after looks in vain, which each hand-over inside this process may have caused.
const LONG_YIELD: Duration = Duration::from_millis(25);

/// The hand-overs inside the process that a lease came by, since its slot was last taken from the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    handed: u32,
    since: Option<Instant>,
    contested: bool,
}

/// What becomes of the slot of a lease that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtClose {
    /// It is handed to the next entry of this process, if there is one.
    HandOver,
    /// It is freed.
    Free(Follow),
}

/// When the next entry of this process looks at a slot that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    AtOnce,
    /// At once, unless this process has kept the slot to itself for so long: then it leaves the slot to others for a
    /// while, should there be any.
    AtOnceUnlessKept(Duration),
    /// When its watch wakes it, or at this moment.
    By(Instant),
}

impl Turn {
    /// Of a lease taken from the store; `contested` if its entry saw that other processes want the slot.
    pub(crate) fn first(contested: bool) -> Self {
        Self {
            contested,
            ..Self::default()
        }
    }

    /// Of the lease that takes over at `now`.
    pub(crate) fn next(self, now: Instant) -> Self {
        Self {
            handed: self.handed.saturating_add(1),
            since: self.since.or(Some(now)),
            ..self
        }
    }

    /// What becomes of the slot of a lease that is closed at `now`.
    pub(crate) fn at_close(&self, settings: &Settings, now: Instant) -> AtClose {
        let longest = settings.max_hand_over_time;
        let time = self.since.map(|since| now.saturating_duration_since(since));
        if self.handed < settings.max_hand_overs && time.is_none_or(|time| time < longest) {
            AtClose::HandOver
        } else if self.contested {
            AtClose::Free(Follow::By(after(now, YIELD)))
        } else {
            AtClose::Free(Follow::AtOnceUnlessKept(longest.min(LONGEST_KEPT)))
        }
    }
}

impl Follow {
    /// When to look if no watch wakes: `None` is at once. `kept_since` says since when entries of this process
    /// followed each other without leaving the slot to others.
    pub(crate) fn by(self, kept_since: &mut Option<Instant>) -> Option<Instant> {
        match self {
            Self::AtOnce => None,
            Self::By(moment) => Some(moment),
            Self::AtOnceUnlessKept(limit) => {
                let now = Instant::now();
                let since = *kept_since.get_or_insert(now);
                (now.saturating_duration_since(since) >= limit).then(|| {
                    *kept_since = Some(now);
                    after(now, LONG_YIELD)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::config::GuardConfig;
    use crate::store::contract::Capabilities;

    #[test]
    fn a_row_ends_by_count_or_by_time_from_its_first_hand_over() {
        let config = GuardConfig {
            max_hand_overs: 2,
            max_hand_over_time: Duration::from_secs(1),
            ..GuardConfig::default()
        };
        let settings = config.settings(&Capabilities::new(Duration::MAX)).unwrap();
        let start = Instant::now();
        let at = |turn: &Turn, millis| {
            let now = start + Duration::from_millis(millis);
            turn.at_close(&settings, now)
        };
        let turn = Turn::first(true);
        assert_eq!(at(&turn, 60_000), AtClose::HandOver);
        let turn = turn.next(start);
        assert_eq!(at(&turn, 999), AtClose::HandOver);
        assert_ne!(at(&turn, 1_000), AtClose::HandOver);
        let turn = turn.next(start);
        let freed = AtClose::Free(Follow::By(after(start, YIELD)));
        assert_eq!(at(&turn, 0), freed);
    }

    #[test]
    fn a_process_that_knows_of_no_others_leaves_the_slot_now_and_then() {
        let mut kept_since = None;
        let follow = Follow::AtOnceUnlessKept(Duration::from_millis(50));
        assert_eq!(follow.by(&mut kept_since), None);
        kept_since = Instant::now().checked_sub(Duration::from_secs(1));
        assert!(follow.by(&mut kept_since).is_some());
        assert_eq!(follow.by(&mut kept_since), None);
    }
}
