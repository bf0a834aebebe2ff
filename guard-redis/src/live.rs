//! A connection that works as far as is known, and what is known of it.

use std::time::Instant;

use crate::session::Mastery;
use crate::unanswered::Identity;
use crate::wire::Connection;

/// A connection that works as far as is known.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    pub(crate) known: Known,
    /// Whether its server is a master.
    pub(crate) mastery: Mastery,
}

/// What is known of a connection.
#[derive(Clone)]
pub(crate) struct Known {
    /// When it was opened, or first seen.
    pub(crate) since: Instant,
    /// When it last answered.
    pub(crate) answered: Instant,
    /// By what the server knows it, if it tells.
    pub(crate) identity: Option<Identity>,
}

impl Known {
    /// What is known of a connection that was opened, or first seen, at `since`, and has just answered.
    pub(crate) fn new(since: Instant, identity: Option<Identity>) -> Self {
        Self {
            since,
            answered: Instant::now(),
            identity,
        }
    }
}
