//! What a slot is called among named locks, and how that is written in SQL.

use std::fmt::Write as _;

use guard_core::SlotName;

/// The longest name that is used as it is, in UTF-16 units.
const LONGEST: usize = 64;
/// How much of a longer one is kept.
const KEPT: usize = 50;

/// The name of a slot's lock: the slot's own if it has at most 64 UTF-16 units, else its first 50 units, `:` and
/// the hash of all units that Java calls `String.hashCode`, in lower-case hexadecimal. A character that the cut
/// halves becomes `?`.
///
/// Two slots may have one name, and the server ignores case; such slots exclude each other, which harms nothing but
/// their speed.
#[must_use]
pub fn lock_name(slot: &SlotName) -> String {
    let name = slot.as_str();
    let units: Vec<u16> = name.encode_utf16().collect();
    if units.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = units.iter().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(*unit))
    });
    let kept = units.into_iter().take(KEPT);
    let kept = char::decode_utf16(kept).map(|character| character.unwrap_or('?'));
    let kept: String = kept.collect();
    format!("{kept}:{hash:x}")
}

/// A text as it is written in any mode of the server.
pub(crate) fn literal(text: &str) -> String {
    let mut literal = "_utf8mb4 X'".to_owned();
    for byte in text.bytes() {
        // Writing to a string does not fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal.push('\'');
    literal
}
