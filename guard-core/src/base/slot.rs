//! What a key is called in a store.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use crate::base::error::ConfigError;
use crate::base::key::SandboxIsolationKey;
use crate::base::text::is_blank;

/// The prefix of slot names unless another one is set.
pub const DEFAULT_KEY_PREFIX: &str = "agentscope:sandbox:lock:";

/// The first part of every slot name of a guard: not blank, no NUL, ends with `:`.
///
/// Two guards are apart only if neither prefix, with a scope appended, begins the other's: with the
/// prefixes `app:` and `app:user:`, the user `user:x` of the first and the user `x` of the second can
/// meet in one slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// Checks `prefix`, and appends a final `:` where it lacks one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`] when the prefix is blank or holds a NUL.
    pub fn new(prefix: &str) -> Result<Self, ConfigError> {
        if is_blank(prefix) {
            return Err(ConfigError::setting("key_prefix", "it must not be blank"));
        }
        if prefix.contains('\0') {
            return Err(ConfigError::setting(
                "key_prefix",
                "it must not contain a NUL character",
            ));
        }
        let colon = if prefix.ends_with(':') { "" } else { ":" };
        Ok(Self(format!("{prefix}{colon}").into()))
    }

    /// The prefix, with its final `:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of `key`'s slot under this prefix: `<prefix><scope>:<value>`.
    ///
    /// ```
    /// use guard_core::{KeyPrefix, SandboxIsolationKey, IsolationScope};
    ///
    /// let prefix = KeyPrefix::new("myapp:guard")?;
    /// let key = SandboxIsolationKey::new(IsolationScope::User, "u-1")?;
    /// assert_eq!(prefix.slot(&key).as_str(), "myapp:guard:user:u-1");
    /// # Ok::<(), guard_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn slot(&self, key: &SandboxIsolationKey) -> SlotName {
        let parts = [self.as_str(), key.scope().as_str(), ":", key.value()];
        SlotName::from_store(&parts.concat())
    }
}

/// The name of a slot in its store, made by [`KeyPrefix::slot`] from a checked prefix and key.
///
/// Cloning is cheap, and so is looking it up in a [`SlotMap`]: the name carries its hash. `Debug` quotes and
/// escapes, so that a name with line breaks stays on its log line.
#[derive(Clone)]
pub struct SlotName {
    name: Arc<str>,
    hash: u64,
}

/// A map by slot. The names carry their hash, keyed by a random number of the process, so that names cannot
/// be chosen to collide.
pub type SlotMap<V> = HashMap<SlotName, V, BuildHasherDefault<CarriedHash>>;

impl SlotName {
    /// A name that a store tells, of whatever it is.
    #[must_use]
    pub fn from_store(name: &str) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self {
            name: name.into(),
            hash: KEY.hash_one(name),
        }
    }

    /// The name as it goes to the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Picks one of `count` shards, of which there must be some.
    ///
    /// # Panics
    ///
    /// When `count` is zero.
    #[must_use]
    #[inline]
    pub fn shard(&self, count: usize) -> usize {
        // The other half of the hash than what maps take first. A remainder fits.
        let half = self.hash.rotate_left(32);
        #[allow(clippy::cast_possible_truncation)]
        let shard = (half % count as u64) as usize;
        shard
    }
}

impl PartialEq for SlotName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.name, &other.name) || self.name == other.name)
    }
}

impl Eq for SlotName {}

impl Hash for SlotName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for SlotName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SlotName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// Takes the hash that a [`SlotName`] carries for the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct CarriedHash(u64);

impl Hasher for CarriedHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl fmt::Debug for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.name, f)
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

const SHARDS: usize = 32;

/// A number of `T`s, such as locked maps, of which each slot has one: so distinct slots seldom share a lock.
#[derive(Debug)]
pub struct Shards<T>([Apart<T>; SHARDS]);

/// On cache lines of its own, so that threads that use neighbours do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> Shards<T> {
    /// The one that `slot` has.
    #[must_use]
    #[inline]
    pub fn of(&self, slot: &SlotName) -> &T {
        &self.0[slot.shard(SHARDS)].0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Apart(shard)| shard)
    }
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Apart::default()))
    }
}
