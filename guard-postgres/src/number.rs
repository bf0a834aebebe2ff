//! What a slot is called among advisory locks.

use guard_core::SlotName;

/// The seed of the hash, as other programs that share the slots have it.
const SEED: u32 = 104_729;

/// The number of a slot's advisory lock: the first 64 bits of `MurmurHash3` (x64, 128 bits, seed 104729) of its
/// name in UTF-8, signed.
///
/// Two slots may have one number; they then exclude each other, which harms nothing but their speed.
#[must_use]
pub fn lock_number(slot: &SlotName) -> i64 {
    let mut name = slot.as_str().as_bytes();
    // Reading from memory does not fail.
    let hash = murmur3::murmur3_x64_128(&mut name, SEED).unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    let number = hash as u64 as i64;
    number
}
