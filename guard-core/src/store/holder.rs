//! Who holds a slot, for operators.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::base::text::printable;
use crate::base::token::LeaseToken;

/// Who holds a slot, for operators.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    token: LeaseToken,
    remaining: Option<Duration>,
    owner: Option<String>,
    since: Option<SystemTime>,
    description: Option<String>,
}

impl Holder {
    /// The holder that wrote `token`, and how long it still has.
    #[must_use]
    pub const fn new(token: LeaseToken, remaining: Option<Duration>) -> Self {
        Self {
            token,
            remaining,
            owner: None,
            since: None,
            description: None,
        }
    }

    /// Adds how long the holder still has, where the store itself does not know.
    pub(crate) fn with_remaining(mut self, remaining: Duration) -> Self {
        self.remaining.get_or_insert(remaining);
        self
    }

    /// Adds the owner's label, for stores that keep it elsewhere than in the token.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Adds since when the holder has been there.
    #[must_use]
    pub const fn with_since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    /// Adds what else the store knows of the holder, such as the number of its session.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    pub(crate) const fn token(&self) -> &LeaseToken {
        &self.token
    }

    /// The label that the holder's guard was built with; `None` without one. Of a foreign holder it is what
    /// the store shows as its name, if it does.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref().or_else(|| self.token.owner())
    }

    /// Since when the holder, or the session that it holds the slot with, has been there; `None` from stores
    /// that do not know.
    #[must_use]
    pub const fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// What else the store knows of the holder, such as the number of its session.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// A short form of the holder's token, enough to tell holders apart.
    #[must_use]
    pub fn short_token(&self) -> String {
        self.token.short()
    }

    /// How long the holder still has; `None` if its lease has no TTL, as a foreign one may, or if only its own guard
    /// knows: with a database a slot is held until the holder's session ends.
    #[must_use]
    pub const fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("owner", &self.owner())
            .field("token", &self.token)
            .field("remaining", &self.remaining)
            .field("since", &self.since)
            .field("description", &self.description)
            .finish()
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Anybody may have written it: it must forge no log line.
        let owner = printable(self.owner().unwrap_or("unknown owner"));
        match &self.description {
            Some(description) => write!(f, "{owner} ({}), ", printable(description))?,
            None => write!(f, "{owner} ({}), ", self.short_token())?,
        }
        match (self.remaining, &self.description) {
            (Some(remaining), _) => write!(f, "{remaining:?} left"),
            (None, Some(_)) => f.write_str("until its session ends"),
            (None, None) => f.write_str("no TTL"),
        }
    }
}
