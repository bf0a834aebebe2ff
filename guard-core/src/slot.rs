//! What a key is called in a store.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::error::ConfigError;
use crate::key::{SandboxIsolationKey, is_blank};

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
        let (prefix, scope, value) = (self.as_str(), key.scope().as_str(), key.value());
        let mut name = String::with_capacity(prefix.len() + scope.len() + 1 + value.len());
        name.push_str(prefix);
        name.push_str(scope);
        name.push(':');
        name.push_str(value);
        SlotName(name.into())
    }
}

/// The name of a slot in its store, made by [`KeyPrefix::slot`] from a checked prefix and key.
///
/// Cloning is cheap. `Debug` quotes and escapes, so that a name with line breaks stays on its log line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotName(Arc<str>);

impl SlotName {
    /// The name as it goes to the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Slots can be looked up by name; hash and order are those of the name.
impl Borrow<str> for SlotName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
