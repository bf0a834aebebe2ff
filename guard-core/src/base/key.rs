//! What callers name: an isolation scope and a value, checked once where the key is made.

use std::fmt;

use crate::base::error::ConfigError;
use crate::base::scope::IsolationScope;
use crate::base::text::is_blank;

/// The largest legal key value, in bytes of UTF-8.
pub const MAX_VALUE_BYTES: usize = 1024;

/// The value of the one key of [`IsolationScope::Global`].
pub const GLOBAL_VALUE: &str = "__global__";

/// Names one sandbox slot: a scope and a value.
///
/// - the value is not blank (see below) and holds no NUL;
/// - it is at most [`MAX_VALUE_BYTES`] bytes long;
/// - it is used as it is: nothing is trimmed, folded, normalised or escaped.
///
/// *Blank* is empty, or made only of characters that the reference implementation's runtime takes for
/// white space: [`char::is_whitespace`] without U+0085, U+00A0, U+2007 and U+202F, and with
/// U+001C to U+001F.
///
/// ```
/// use guard_core::{IsolationScope, SandboxIsolationKey};
///
/// let key = SandboxIsolationKey::new(IsolationScope::Agent, "code-agent")?;
/// assert_eq!(key.to_string(), "agent:code-agent");
/// assert!(SandboxIsolationKey::new(IsolationScope::User, "  ").is_err());
/// # Ok::<(), guard_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxIsolationKey {
    scope: IsolationScope,
    value: String,
}

impl SandboxIsolationKey {
    /// Makes the key of `scope` with `value`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidKey`] when the value is blank, holds a NUL or is longer than
    /// [`MAX_VALUE_BYTES`].
    pub fn new(scope: IsolationScope, value: impl Into<String>) -> Result<Self, ConfigError> {
        let value = value.into();
        let refuse = |reason: String| Err(ConfigError::InvalidKey { scope, reason });
        if is_blank(&value) {
            return refuse("it is blank".to_owned());
        }
        if value.contains('\0') {
            return refuse("it contains a NUL character".to_owned());
        }
        if value.len() > MAX_VALUE_BYTES {
            let len = value.len();
            return refuse(format!(
                "it is {len} bytes long, the limit is {MAX_VALUE_BYTES} bytes"
            ));
        }
        Ok(Self { scope, value })
    }

    /// The one key of [`IsolationScope::Global`].
    #[must_use]
    pub fn global() -> Self {
        Self {
            scope: IsolationScope::Global,
            value: GLOBAL_VALUE.to_owned(),
        }
    }

    /// Finds the key of a call, or `None` when the context lacks what the scope needs; the caller then
    /// works without a guard.
    ///
    /// - no scope means [`IsolationScope::User`];
    /// - `Session` needs a session id;
    /// - `User` needs a user id, and falls back to `Session` without one;
    /// - `Agent` needs an agent id;
    /// - `Global` always resolves.
    ///
    /// An id that is blank counts as absent.
    ///
    /// ```
    /// use guard_core::{IsolationScope, RuntimeContext, SandboxIsolationKey};
    ///
    /// let context = RuntimeContext::new().with_session_id("s-1");
    /// let key = SandboxIsolationKey::resolve(Some(IsolationScope::User), &context, None)?;
    /// assert_eq!(key.unwrap().to_string(), "session:s-1");
    /// # Ok::<(), guard_core::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidKey`] when an id is present but is not a legal value.
    pub fn resolve(
        scope: Option<IsolationScope>,
        context: &RuntimeContext,
        agent_id: Option<&str>,
    ) -> Result<Option<Self>, ConfigError> {
        let user = present(context.user_id());
        let session = present(context.session_id());
        match scope.unwrap_or(IsolationScope::User) {
            IsolationScope::Session => make(IsolationScope::Session, session),
            IsolationScope::User if user.is_some() => make(IsolationScope::User, user),
            IsolationScope::User if session.is_some() => {
                log::debug!(target: crate::LOG_TARGET, "no user id: the session's sandbox is used");
                make(IsolationScope::Session, session)
            }
            IsolationScope::User => {
                log::warn!(
                    target: crate::LOG_TARGET,
                    "neither a user id nor a session id: the sandbox is used without a guard"
                );
                Ok(None)
            }
            IsolationScope::Agent => make(IsolationScope::Agent, present(agent_id)),
            IsolationScope::Global => Ok(Some(Self::global())),
        }
    }

    /// The scope.
    #[must_use]
    pub const fn scope(&self) -> IsolationScope {
        self.scope
    }

    /// The value, as it was given.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for SandboxIsolationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scope, self.value)
    }
}

/// What a call knows of its user and session: the input of [`SandboxIsolationKey::resolve`]. A blank id counts as
/// absent, so one that may be missing can be set by `id.unwrap_or_default()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContext {
    user_id: Option<String>,
    session_id: Option<String>,
}

impl RuntimeContext {
    /// A context that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the user id.
    #[must_use]
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// Sets the session id.
    #[must_use]
    pub fn with_session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// The user id, if one was set.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }

    /// The session id, if one was set.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }
}

fn present(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !is_blank(id))
}

fn make(
    scope: IsolationScope,
    value: Option<&str>,
) -> Result<Option<SandboxIsolationKey>, ConfigError> {
    value
        .map(|value| SandboxIsolationKey::new(scope, value))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_exactly_the_limit_is_legal_and_one_byte_more_is_not() {
        let fits = "x".repeat(MAX_VALUE_BYTES);
        assert!(SandboxIsolationKey::new(IsolationScope::User, &*fits).is_ok());
        let error = SandboxIsolationKey::new(IsolationScope::User, format!("{fits}x")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("1025") && text.contains("1024"), "{text}");
    }

    #[test]
    fn the_limit_counts_bytes_not_characters() {
        let value = "\u{540D}".repeat(342);
        assert!(SandboxIsolationKey::new(IsolationScope::User, value).is_err());
    }
}
