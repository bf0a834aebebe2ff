//! Who shares a sandbox.

use std::fmt;

/// Who shares a sandbox: everything that resolves to the same scope and value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IsolationScope {
    /// One sandbox a session.
    Session,
    /// One sandbox a user, shared by that user's sessions.
    User,
    /// One sandbox an agent, shared by its users and sessions.
    Agent,
    /// One sandbox for everybody.
    Global,
}

impl IsolationScope {
    /// The scope's name in lower case, as it stands in a slot name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Global => "global",
        }
    }
}

impl fmt::Display for IsolationScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
