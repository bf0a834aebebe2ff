//! The counter of a slot's fencing tokens: its name and its life.

use std::time::Duration;

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
    let wanted = hash_slot_of(slot);
    let tag = (0_u64..).find(|tag| hash_slot(tag.to_string().as_bytes()) == wanted);
    format!("{{{}}}{name}{SUFFIX}", tag.unwrap_or_default())
}

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
    crc16::State::<crc16::XMODEM>::calculate(name) % HASH_SLOTS
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
    fn a_counter_lives_for_thirty_days_or_a_hundred_ttls() {
        let life = |ttl| counter_life(LeaseTtl::new(ttl, Duration::MAX).unwrap());
        assert_eq!(life(Duration::from_millis(1)), 2_592_000_000);
        assert_eq!(life(Duration::from_secs(86_400)), 8_640_000_000);
        assert_eq!(life(Duration::from_millis(1 << 62)), LONGEST_LIFE);
    }
}
