//! What a holder writes to its slot, and the number that storage checks.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::error::ConfigError;
use crate::base::random;
use crate::base::text::{is_blank, printable};

/// Random characters of a token of ours: 128 bits in lower-case hexadecimal.
const RANDOM_CHARS: usize = 32;
/// Characters of a token that may be shown: enough to tell holders apart, far from enough to act as one.
const SHOWN_CHARS: usize = 8;
/// Between the owner's label and the random part.
const SEPARATOR: char = '/';
/// The longest owner label, in bytes.
const MAX_OWNER_BYTES: usize = 128;

/// Names who made a token: a short label such as a host or service name, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerLabel(Option<Arc<str>>);

impl OwnerLabel {
    /// Checks `label`: not blank, at most 128 bytes, no control characters.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] that names the setting `owner` and the limit.
    pub fn new(label: &str) -> Result<Self, ConfigError> {
        if is_blank(label) {
            return Err(ConfigError::setting("owner", "it must not be blank"));
        }
        if label.len() > MAX_OWNER_BYTES {
            return Err(ConfigError::setting(
                "owner",
                format!(
                    "it is {} bytes long, the limit is {MAX_OWNER_BYTES} bytes",
                    label.len()
                ),
            ));
        }
        if label.chars().any(char::is_control) {
            return Err(ConfigError::setting(
                "owner",
                "it must not contain control characters",
            ));
        }
        Ok(Self(Some(label.into())))
    }
}

/// The value that a holder writes to its slot: unique for each entry and unguessable.
///
/// Tokens of this library are `<32 hexadecimal digits>` or `<owner>/<32 hexadecimal digits>`; other
/// programs that share the slots may use any string. Whoever knows a token can release its lease, so
/// `Debug` shows a short form only and there is no `Display`.
#[derive(Clone)]
pub struct LeaseToken(Text);

/// The usual token is made and passed on without allocation.
#[derive(Clone)]
enum Text {
    Digits(Digits),
    Other(Arc<str>),
    /// What is no text, and how it is shown.
    Bytes(Arc<[u8]>, Arc<str>),
}

/// Aligned, so that copies of one that was just made do not stall the processor.
#[derive(Clone, Copy, PartialEq)]
#[repr(align(8))]
struct Digits([u8; RANDOM_CHARS]);

impl LeaseToken {
    /// Makes a token that was never made before, also not by a copy of this process: 128 random bits from the
    /// operating system, behind the owner's label if there is one.
    #[must_use]
    pub fn generate(owner: &OwnerLabel) -> Self {
        Self::of(random::from_system(), owner)
    }

    /// The same, quicker, for a store that no other process shares.
    pub(crate) fn generate_within_process(owner: &OwnerLabel) -> Self {
        Self::of(random::within_process(), owner)
    }

    fn of(bits: u128, owner: &OwnerLabel) -> Self {
        let mut digits = [0_u8; RANDOM_CHARS];
        for (eight, bits) in digits.chunks_exact_mut(8).zip(bits.to_ne_bytes().chunks(4)) {
            let bits = bits.try_into().map_or(0, u32::from_ne_bytes);
            eight.copy_from_slice(&hexadecimal(bits));
        }
        Self(match &owner.0 {
            None => Text::Digits(Digits(digits)),
            Some(label) => {
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                Text::Other(format!("{label}{SEPARATOR}{digits}").into())
            }
        })
    }

    /// A token that was read from a store, written by whatever program holds the slot.
    #[must_use]
    pub fn from_store(value: impl Into<Arc<str>>) -> Self {
        Self(Text::Other(value.into()))
    }

    /// The same, for a store whose tokens need not be text.
    #[must_use]
    pub fn from_bytes(value: &[u8]) -> Self {
        match String::from_utf8_lossy(value) {
            Cow::Borrowed(text) => Self::from_store(text),
            Cow::Owned(shown) => Self(Text::Bytes(value.into(), shown.into())),
        }
    }

    /// The whole token: a secret, to be given to the store only. Of a foreign one that is no text, an
    /// approximation: stores with such tokens take [`as_bytes`](Self::as_bytes).
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Digits(Digits(digits)) => std::str::from_utf8(digits).unwrap_or_default(),
            Text::Other(text) | Text::Bytes(_, text) => text,
        }
    }

    /// The whole token, to the byte.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Digits(Digits(digits)) => digits,
            Text::Other(text) => text.as_bytes(),
            Text::Bytes(bytes, _) => bytes,
        }
    }

    /// The owner's label, when the token carries one.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.parts()
            .map(|(owner, _)| owner)
            .filter(|o| !o.is_empty())
    }

    /// A short form that is safe to show: the first characters of the random part.
    #[must_use]
    pub fn short(&self) -> String {
        let text = self.parts().map_or(self.as_str(), |(_, digits)| digits);
        // A foreign token may be short itself: at most a quarter of it is shown.
        let shown = SHOWN_CHARS.min(text.chars().count() / 4);
        let shown: String = text.chars().take(shown).collect();
        format!("{}…", printable(&shown))
    }

    /// Owner (empty without one) and random part, if this is a token of ours.
    fn parts(&self) -> Option<(&str, &str)> {
        let (owner, digits) = self
            .as_str()
            .rsplit_once(SEPARATOR)
            .unwrap_or(("", self.as_str()));
        let ours = digits.len() == RANDOM_CHARS
            && digits
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        ours.then_some((owner, digits))
    }
}

impl PartialEq for LeaseToken {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Text::Digits(a), Text::Digits(b)) => a == b,
            _ => self.as_bytes() == other.as_bytes(),
        }
    }
}

impl Eq for LeaseToken {}

impl Hash for LeaseToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// The hexadecimal digits of `bits`, made together in one register.
const fn hexadecimal(bits: u32) -> [u8; 8] {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // Four bits to a byte.
    let mut digits = bits as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (digits + 6 * ONES) >> 4 & ONES;
    let zeros = b'0' as u64 * ONES;
    let to_letters = (b'a' - 10 - b'0') as u64;
    (digits + zeros + to_letters * letters).to_be_bytes()
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({})", self.short())
    }
}

/// A number that grows with every lease of a slot.
///
/// Storage that remembers the largest number it saw, and refuses writes that carry a smaller one, is
/// safe from a holder whose lease was lost without its knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Wraps a number that a store gave.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_carries_its_owner_and_shows_only_a_short_form() {
        let token = LeaseToken::generate(&OwnerLabel::new("host/7").unwrap());
        assert_eq!(token.owner(), Some("host/7"));
        let secret = token.as_str().rsplit_once('/').unwrap().1;
        assert_eq!(secret.len(), 32);
        assert!(!format!("{token:?}").contains(secret));
        assert!(secret.starts_with(token.short().trim_end_matches('…')));
    }

    #[test]
    fn a_token_without_an_owner_is_only_random() {
        let token = LeaseToken::generate(&OwnerLabel::default());
        assert_eq!((token.owner(), token.as_str().len()), (None, 32));
    }

    #[test]
    fn a_foreign_token_is_never_shown_whole() {
        for foreign in ["", "a", "abc", "c0ffee", "\u{1F600}\u{1F600}", "x/y"] {
            let token = LeaseToken::from_store(foreign);
            assert_eq!(token.owner(), None);
            let shown = token.short();
            assert!(foreign.is_empty() || !shown.contains(foreign), "{shown}");
        }
        let uuid = LeaseToken::from_store("123e4567-e89b-12d3-a456-426614174000");
        assert_eq!(uuid.short(), "123e4567…");
        let forged = LeaseToken::from_store("a\n\u{1b}[2Jb".repeat(4));
        assert!(!forged.short().contains(char::is_control));
    }

    #[test]
    fn a_foreign_token_that_is_no_text_is_kept_to_the_byte() {
        let [one, other] = [b"\xff\xfe\0a", b"\xff\xfd\0a"].map(|it| LeaseToken::from_bytes(it));
        assert_eq!(one.as_bytes(), b"\xff\xfe\0a");
        assert_eq!(one.as_str(), other.as_str());
        assert_ne!(one, other);
        assert_eq!(
            LeaseToken::from_bytes(b"text"),
            LeaseToken::from_store("text")
        );
    }

    #[test]
    fn ten_thousand_tokens_differ() {
        let owner = OwnerLabel::default();
        let tokens: std::collections::HashSet<_> =
            (0..10_000).map(|_| LeaseToken::generate(&owner)).collect();
        assert_eq!(tokens.len(), 10_000);
    }
}
