//! The counter of a slot's fencing tokens: its name and its life.

use std::sync::LazyLock;
use std::time::Duration;

use crc16::{CrcType, State, XMODEM};
use guard_core::{LeaseTtl, SlotName};

/// What follows the slot's name in its counter's name. A NUL is in no slot name, so no slot is ever called
/// like a counter.
const SUFFIX: &str = "\0f";
/// How many hash slots a cluster has.
pub(crate) const HASH_SLOTS: u16 = 16_384;
/// The shortest life of a counter after its slot was last used.
const SHORTEST_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest life, in milliseconds: what the server can hold.
const LONGEST_LIFE: u64 = 1 << 62;

/// The name of a slot's counter. It has the slot's hash slot, so that a cluster keeps both on one node.
pub(crate) fn counter_name(slot: &SlotName) -> String {
    let name = slot.as_str();
    if hash_tag(name).is_some() {
        return [name, SUFFIX].concat();
    }
    if !name.contains('}') {
        return ["{", name, "}", SUFFIX].concat();
    }
    // Whatever stands in braces first decides: a number that hashes like the whole name.
    let tag = TAGS.get(usize::from(hash_slot_of(slot)));
    format!("{{{}}}{name}{SUFFIX}", tag.copied().unwrap_or_default())
}

/// For each hash slot the smallest number, in decimal, that is in it. Made at first need, within a few milliseconds:
/// to search for one takes more than an entry does.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(HASH_SLOTS)];
    let mut missing = tags.len();
    // The sums of all numbers so far: a number's follows from that of its digits but the last.
    let mut sums: Vec<u16> = Vec::new();
    for number in 0_u32.. {
        if missing == 0 {
            break;
        }
        let digit = char::from_digit(number % 10, 10).unwrap_or_default();
        let before = match usize::try_from(number / 10) {
            Ok(0) | Err(_) => XMODEM::init(),
            Ok(prefix) => sums.get(prefix).copied().unwrap_or_default(),
        };
        let sum = XMODEM::update(before, &[digit as u8]);
        sums.push(sum);
        if let Some(tag @ None) = tags.get_mut(usize::from(XMODEM::get(sum) % HASH_SLOTS)) {
            *tag = Some(number);
            missing -= 1;
        }
    }
    tags.into_iter().map(Option::unwrap_or_default).collect()
});

/// How long a counter lives after its slot was last used, in milliseconds: 30 days or 100 TTLs.
pub(crate) fn counter_life(ttl: LeaseTtl) -> u64 {
    let shortest = u64::try_from(SHORTEST_LIFE.as_millis()).unwrap_or(u64::MAX);
    ttl.as_millis()
        .saturating_mul(100)
        .clamp(shortest, LONGEST_LIFE)
}

/// The hash slot of a slot's name: which server of a cluster has it.
pub(crate) fn hash_slot_of(slot: &SlotName) -> u16 {
    let name = slot.as_str();
    hash_slot(hash_tag(name).unwrap_or(name).as_bytes())
}

/// What decides the hash slot instead of the whole name: the text between the first `{` and the next `}`,
/// if there is any.
fn hash_tag(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The hash slot of a name without a tag, as the cluster specification defines it: CRC-16/XMODEM modulo
/// 16,384.
fn hash_slot(name: &[u8]) -> u16 {
    State::<XMODEM>::calculate(name) % HASH_SLOTS
}

#[cfg(test)]
mod tests {
    use guard_core::{IsolationScope, KeyPrefix, SandboxIsolationKey};

    use super::*;

    fn counter(prefix: &str, value: &str) -> String {
        let key = SandboxIsolationKey::new(IsolationScope::User, value).unwrap();
        counter_name(&KeyPrefix::new(prefix).unwrap().slot(&key))
    }

    #[test]
    fn the_counter_has_its_slots_hash_slot() {
        assert_eq!(hash_slot(b"123456789"), 0x31C3 % HASH_SLOTS);
        assert_eq!(counter("p", "u"), "{p:user:u}\0f");
        assert_eq!(counter("{t}", "u"), "{t}:user:u\0f");
        assert_eq!(counter("a}", "u-1"), "{528}a}:user:u-1\0f");
        let odd = counter("agentscope:sandbox:lock:", "}{");
        assert_eq!(odd, "{49824}agentscope:sandbox:lock:user:}{\0f");
    }

    #[test]
    fn a_name_with_odd_braces_has_the_smallest_number_of_its_hash_slot_and_gets_it_at_once() {
        for value in ["}7{", "}{", "a}b", "}}", "}\u{1F600}{{"] {
            let name = counter("p", value);
            let tag: u64 = hash_tag(&name).unwrap().parse().unwrap();
            let slot = name
                .split_once('}')
                .unwrap()
                .1
                .strip_suffix(SUFFIX)
                .unwrap();
            let wanted = hash_slot(hash_tag(slot).unwrap_or(slot).as_bytes());
            let mut numbers = (0_u64..).map(|number| number.to_string());
            let smallest = numbers.position(|number| hash_slot(number.as_bytes()) == wanted);
            assert_eq!(u64::try_from(smallest.unwrap()).unwrap(), tag, "{value}");
        }
        // Searching took 1.6 ms each, in a release build.
        let start = std::time::Instant::now();
        for _ in 0..1_000 {
            std::hint::black_box(counter("p", "}7{"));
        }
        assert!(
            start.elapsed() < Duration::from_millis(1_000),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn a_counter_lives_for_thirty_days_or_a_hundred_ttls() {
        let life = |ttl| counter_life(LeaseTtl::new(ttl, Duration::MAX).unwrap());
        assert_eq!(life(Duration::from_millis(1)), 2_592_000_000);
        assert_eq!(life(Duration::from_secs(86_400)), 8_640_000_000);
        assert_eq!(life(Duration::from_millis(1 << 62)), LONGEST_LIFE);
    }
}
