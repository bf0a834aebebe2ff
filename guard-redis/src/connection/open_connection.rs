//! A connection that works as far as is known, and what is known of it.

use std::time::{Duration, Instant};

use crate::connection::identity::Identity;
use crate::connection::wire::Wire;

/// How long a master's word that it is one counts, from before it was asked.
const RECENT: Duration = Duration::from_secs(3);

/// A connection that works as far as is known.
pub(crate) struct OpenConnection {
    pub(crate) wire: Wire,
    /// When it was opened.
    pub(crate) since: Instant,
    /// When it last answered.
    pub(crate) answered: Instant,
    /// By what the server knows it, if it tells.
    pub(crate) identity: Option<Identity>,
    /// Whether its server is a master.
    pub(crate) mastery: Mastery,
}

impl OpenConnection {
    /// One that was opened just now, of whose server nothing is known yet.
    pub(crate) fn new(wire: Wire) -> Self {
        let now = Instant::now();
        Self {
            wire,
            since: now,
            answered: now,
            identity: None,
            mastery: Mastery::Unknown,
        }
    }
}

/// What is known of a connection's server: whether it is a master.
#[derive(Clone, Copy)]
pub(crate) enum Mastery {
    Unknown,
    /// It was one at this moment or later.
    Seen(Instant),
    /// It does not tell us, and is taken for one.
    Untold,
}

impl Mastery {
    /// Whether the server has to be asked before its next word counts.
    pub(crate) fn is_to_be_asked(self, now: Instant) -> bool {
        match self {
            Self::Unknown => true,
            Self::Seen(at) => now.saturating_duration_since(at) > RECENT,
            Self::Untold => false,
        }
    }
}
