//! What clients saw of their leases, written down as it happens, and the proof that it kept the promises.
//!
//! A line is `<time> <lease> <slot> <event>`. Times are nanoseconds of the machine's monotonic clock, so
//! several processes can write one history. The events of a lease:
//!
//! | event | meaning |
//! |---|---|
//! | `entered <sent> <until> <fencing>` | the entry returned; granted by a command sent at, relied on until; `-` without fencing |
//! | `held <until>` | it was seen held, and could be relied on until |
//! | `closing` | its closing begins: from now on nobody relies on it |
//! | `lost` | it was found lost |
//! | `failed` | an entry ended with a failure of the store, so its outcome was unknown; no lease came of it |
//!
//! A lease counts as valid from its entry to its closing, its loss, or the last moment until which it could
//! be relied on, whichever is first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

/// Nanoseconds of the machine's monotonic clock.
pub type Nanos = u64;

/// The time now.
#[must_use]
pub fn now() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = Duration::new(time.tv_sec.unsigned_abs(), 0).as_nanos() + time.tv_nsec as u128;
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// A duration in nanoseconds.
#[must_use]
pub fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What is known of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    name: String,
    fencing: Option<u64>,
    sent: Nanos,
    entered: Nanos,
    until: Nanos,
    ended: Option<Nanos>,
}

impl Lease {
    /// When its holder stopped relying on it.
    fn end(&self) -> Nanos {
        self.ended
            .map_or(self.until, |ended| ended.min(self.until))
            .max(self.entered)
    }
}

/// The store lost its memory somewhen in this time.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Until here it had its memory.
    pub from: Nanos,
    /// From here on it had a new one.
    pub to: Nanos,
    /// How long after `to` a lease granted before may be relied on at most.
    pub told_within: Nanos,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two leases of a slot were valid at once.
    Overlap(String, String),
    /// The second lease came after the first but has no larger number.
    Fencing(String, String),
    /// A lease was relied on long after the store had lost it.
    LateLoss(String),
}

/// A history that was read.
#[derive(Debug, Default)]
pub struct History {
    slots: BTreeMap<String, Vec<Lease>>,
    failed: usize,
}

impl History {
    /// Reads what several clients wrote.
    ///
    /// # Errors
    ///
    /// The line that makes no sense. A line that is cut off at the end, as a killed process leaves it, makes
    /// none either.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut leases: HashMap<&str, (&str, Lease)> = HashMap::new();
        let mut failed = 0;
        for line in text.lines() {
            let wrong = || format!("line {line:?}");
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let [time, name, slot, event @ ..] = &words[..] else {
                return Err(wrong());
            };
            let number = |word: &str| word.parse::<Nanos>().map_err(|_| wrong());
            let time = number(time)?;
            if let ["entered", sent, until, fencing] = event {
                let lease = Lease {
                    name: (*name).to_owned(),
                    fencing: (*fencing != "-").then(|| number(fencing)).transpose()?,
                    sent: number(sent)?,
                    entered: time,
                    until: number(until)?,
                    ended: None,
                };
                if leases.insert(name, (slot, lease)).is_some() {
                    return Err(wrong());
                }
                continue;
            }
            if *event == ["failed"] {
                failed += 1;
                continue;
            }
            let Some((of, lease)) = leases.get_mut(name) else {
                return Err(wrong());
            };
            match event {
                _ if of != slot => return Err(wrong()),
                ["held", until] => lease.until = lease.until.max(number(until)?),
                ["closing" | "lost"] => {
                    lease.ended = Some(lease.ended.map_or(time, |ended| ended.min(time)));
                }
                _ => return Err(wrong()),
            }
        }
        let mut slots: BTreeMap<String, Vec<Lease>> = BTreeMap::new();
        for (slot, lease) in leases.into_values() {
            slots.entry(slot.to_owned()).or_default().push(lease);
        }
        Ok(Self { slots, failed })
    }

    /// How many leases there were.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.slots.values().map(Vec::len).sum()
    }

    /// How many pairs of leases of a slot were valid at once, excused or not.
    #[must_use]
    pub fn overlaps(&self) -> usize {
        let pairs = |leases: &Vec<Lease>| overlapping(leases).len();
        self.slots.values().map(pairs).sum()
    }

    /// Every promise that was not kept, given when the store lost its memory.
    #[must_use]
    pub fn violations(&self, losses: &[Loss]) -> Vec<Violation> {
        let mut found = Vec::new();
        for leases in self.slots.values() {
            for (earlier, later) in overlapping(leases) {
                // Granted before the loss, and the other one not before: nothing can promise more.
                let excused = |loss: &Loss| earlier.sent <= loss.to && later.entered >= loss.from;
                if !losses.iter().any(excused) {
                    let names = [earlier, later].map(|lease| lease.name.clone());
                    let [earlier, later] = names;
                    found.push(Violation::Overlap(earlier, later));
                }
            }
            found.extend(unordered(leases));
            for (lease, loss) in leases
                .iter()
                .flat_map(|l| losses.iter().map(move |x| (l, x)))
            {
                // What was granted while the memory went may be in the new one.
                if lease.entered <= loss.from && lease.end() > loss.to + loss.told_within {
                    found.push(Violation::LateLoss(lease.name.clone()));
                }
            }
        }
        found
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (leases, slots, failed) = (self.leases(), self.slots.len(), self.failed);
        write!(
            f,
            "{leases} leases of {slots} slots, {failed} failed entries"
        )
    }
}

/// The pairs that were valid at once, the one that was asked for first in front.
fn overlapping(leases: &[Lease]) -> Vec<(&Lease, &Lease)> {
    let mut by_entry: Vec<_> = leases.iter().collect();
    by_entry.sort_by_key(|lease| lease.entered);
    let (mut active, mut pairs) = (Vec::<&Lease>::new(), Vec::new());
    for lease in by_entry {
        active.retain(|other| other.end() > lease.entered);
        for other in &active {
            let in_order = other.sent <= lease.sent;
            pairs.push(if in_order {
                (*other, lease)
            } else {
                (lease, *other)
            });
        }
        active.push(lease);
    }
    pairs
}

/// Where a lease that was asked for after another one's end has no larger number, or the same as any.
fn unordered(leases: &[Lease]) -> Vec<Violation> {
    let numbered = || {
        leases
            .iter()
            .filter_map(|lease| Some((lease.fencing?, lease)))
    };
    let (mut by_end, mut by_sent): (Vec<_>, Vec<_>) = (numbered().collect(), numbered().collect());
    by_end.sort_by_key(|(_, lease)| lease.end());
    by_sent.sort_by_key(|(_, lease)| lease.sent);
    let mut ended = by_end.into_iter().peekable();
    let (mut largest, mut seen, mut found) = (None::<(u64, &Lease)>, BTreeSet::new(), Vec::new());
    for (number, lease) in by_sent {
        while let Some(before) = ended.next_if(|(_, before)| before.end() <= lease.sent) {
            if largest.is_none_or(|(largest, _)| largest < before.0) {
                largest = Some(before);
            }
        }
        let before = largest.filter(|(largest, _)| *largest >= number);
        let twin = (!seen.insert(number)).then_some((number, lease));
        if let Some((_, before)) = before.or(twin) {
            found.push(Violation::Fencing(before.name.clone(), lease.name.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<Violation> {
        History::read(text).unwrap().violations(&[])
    }

    fn overlap(a: &str, b: &str) -> Vec<Violation> {
        vec![Violation::Overlap(a.to_owned(), b.to_owned())]
    }

    #[test]
    fn leases_one_after_the_other_and_of_several_slots_are_fine() {
        let history = "\
            10 a s entered 9 100 1\n 50 a s closing\n\
            50 b s entered 45 150 2\n 60 b s held 170\n 90 x t entered 80 180 1\n\
            171 c s entered 160 270 3\n 200 c s lost\n 200 f s failed\n 201 d s entered 200 300 4\n";
        assert_eq!(violations(history), []);
        let history = History::read(history).unwrap();
        assert_eq!(history.to_string(), "5 leases of 2 slots, 1 failed entries");
        assert_eq!(history.overlaps(), 0);
    }

    #[test]
    fn an_entry_before_the_earlier_lease_was_closed_is_found() {
        let closed_late = "10 a s entered 9 100 -\n 51 a s closing\n 50 b s entered 45 150 -";
        assert_eq!(violations(closed_late), overlap("a", "b"));
        let never_closed = "10 a s entered 9 100 -\n 99 b s entered 45 150 -";
        assert_eq!(violations(never_closed), overlap("a", "b"));
        let lost_late = "10 a s entered 9 100 -\n 99 a s lost\n 98 b s entered 45 150 -";
        assert_eq!(violations(lost_late), overlap("a", "b"));
    }

    #[test]
    fn a_renewal_that_outlived_the_slot_is_found() {
        let renewed = "10 a s entered 9 100 -\n 90 a s held 190\n 110 b s entered 105 205 -";
        assert_eq!(violations(renewed), overlap("a", "b"));
    }

    #[test]
    fn three_at_once_are_three_pairs_whatever_the_order_of_the_lines() {
        let three = "30 c s entered 29 100 -\n 10 a s entered 9 100 -\n 20 b s entered 19 100 -";
        assert_eq!(violations(three).len(), 3);
        assert_eq!(History::read(three).unwrap().overlaps(), 3);
    }

    #[test]
    fn fencing_numbers_that_do_not_grow_are_found() {
        let backwards = "1 a s entered 0 9 5\n 2 a s closing\n 4 b s entered 3 9 4";
        let same = "1 a s entered 0 9 5\n 2 a s closing\n 4 b s entered 3 9 5";
        let later = "1 a s entered 0 9 5\n 2 a s closing\n 4 b s entered 3 9 7\n 5 b s closing\n 7 c s entered 6 9 6";
        let found = |a: &str, b: &str| vec![Violation::Fencing(a.to_owned(), b.to_owned())];
        assert_eq!(violations(backwards), found("a", "b"));
        assert_eq!(violations(same), found("a", "b"));
        assert_eq!(violations(later), found("b", "c"));
    }

    #[test]
    fn a_loss_excuses_only_leases_granted_before_it_and_not_for_long() {
        let loss = Loss {
            from: 40,
            to: 45,
            told_within: 30,
        };
        let check = |text: &str| History::read(text).unwrap().violations(&[loss]);
        let excused = "10 a s entered 9 100 -\n 70 a s lost\n 50 b s entered 46 150 -\n";
        assert_eq!(check(excused), []);
        let late = "10 a s entered 9 100 -\n 76 a s lost\n 50 b s entered 46 150 -\n";
        assert_eq!(check(late), [Violation::LateLoss("a".to_owned())]);
        let before = "10 a s entered 9 60 -\n 30 b s entered 20 35 -\n";
        assert_eq!(check(before), overlap("a", "b"));
        let after = "47 a s entered 46 100 -\n 70 b s entered 60 150 -\n";
        assert_eq!(check(after), overlap("a", "b"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "10 a s",
            "x a s closing",
            "10 a s closing",
            "10 a s entered 9 100",
            "1 a s entered 0 9 -\n 2 a t closing",
            "1 a s entered 0 9 -\n 2 a s entered 1 9 -",
            "1 a s entered 0 9 -\n 2 a s hel",
        ] {
            assert!(History::read(wrong).is_err(), "{wrong}");
        }
    }
}
