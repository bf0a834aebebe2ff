//! What can go wrong, by what the caller does next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::scope::IsolationScope;

/// Why an entry ended without a lease, or a renewal without success.
///
/// Messages name the slot, never a token, a password or a full URL. The cause, where there is one, is
/// the error's [`source`](Error::source).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The wait was interrupted; the interrupt is consumed.
    #[error("interrupted while waiting for sandbox slot {slot:?}")]
    Interrupted {
        /// The slot.
        slot: String,
    },

    /// The slot was held by somebody else for as long as the caller was willing to wait.
    #[error("sandbox slot {slot:?} was still held after a wait of {waited:?}")]
    TimedOut {
        /// The slot.
        slot: String,
        /// How long the caller waited.
        waited: Duration,
    },

    /// The guard was closed.
    #[error("the guard of sandbox slot {slot:?} is closed")]
    Closed {
        /// The slot.
        slot: String,
    },

    /// The store failed, and nobody can say whether the slot is free.
    #[error(
        "the store failed for sandbox slot {slot:?} ({})",
        if *transient { "transient: try again later" } else { "permanent: trying again will not help" }
    )]
    Store {
        /// The slot.
        slot: String,
        /// What the store said.
        source: StoreError,
        /// Whether the same call may succeed later without anybody changing anything.
        transient: bool,
    },

    /// The lease is no longer held: it was closed, it expired, or the slot carries another token.
    #[error("the lease of sandbox slot {slot:?} is no longer held")]
    NotHeld {
        /// The slot.
        slot: String,
    },

    /// The guard was made before this process was forked from another one, and belongs to that one.
    #[error(
        "the guard of sandbox slot {slot:?} was made before this process was forked: build a new one here"
    )]
    Forked {
        /// The slot.
        slot: String,
    },

    /// A thread of the guard could not be started.
    #[error("cannot start the guard's thread {name:?}")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the operating system said.
        source: Arc<std::io::Error>,
    },
}

impl GuardError {
    pub(crate) fn store(slot: &impl fmt::Display, source: StoreError) -> Self {
        Self::Store {
            slot: slot.to_string(),
            transient: source.is_transient(),
            source,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything: a timeout and a
    /// transient failure of the store.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Store { transient, .. } => *transient,
            _ => false,
        }
    }
}

/// A setting, a key or an address that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting is outside its limits.
    #[error("setting `{setting}`: {reason}")]
    InvalidSetting {
        /// The setting's name, as its builder method is called.
        setting: &'static str,
        /// What is wrong, and the limit.
        reason: String,
    },

    /// A key's value is not legal.
    #[error("the value of a sandbox key with scope `{scope}` is not legal: {reason}")]
    InvalidKey {
        /// The key's scope.
        scope: IsolationScope,
        /// What is wrong, and the limit.
        reason: String,
    },

    /// The store cannot be reached, or does not let us in.
    #[error("cannot use the store at {address}")]
    Connect {
        /// Where the store is, without credentials.
        address: String,
        /// What went wrong; transient if the same address may work later.
        source: StoreError,
    },

    /// A thread of the guard could not be started.
    #[error("cannot start the guard's thread {name:?}")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the operating system said.
        source: Arc<std::io::Error>,
    },
}

impl ConfigError {
    /// A setting that is outside its limits; for the builders of stores.
    pub fn setting(setting: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidSetting {
            setting,
            reason: reason.into(),
        }
    }

    /// A store that cannot be used at an address, which must not carry credentials; for the builders of
    /// stores.
    pub fn connect(address: impl Into<String>, source: StoreError) -> Self {
        Self::Connect {
            address: address.into(),
            source,
        }
    }

    /// A thread that the system did not give; for the builders of stores.
    pub fn thread(name: impl Into<String>, source: std::io::Error) -> Self {
        Self::Thread {
            name: name.into(),
            source: Arc::new(source),
        }
    }

    /// Whether the same settings may work later: the store could not be reached just now.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { source, .. } if source.is_transient())
    }
}

/// A store operation that did not do what it was asked.
///
/// Two questions decide what the guard does next: may the same operation succeed later
/// ([`is_transient`](Self::is_transient)), and may this one still take effect
/// ([`is_unknown`](Self::is_unknown))?
#[derive(Clone)]
pub struct StoreError {
    message: String,
    transient: bool,
    unknown: bool,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// A failure that may pass by itself: the store is out of reach, starting, failing over, full.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(message.into(), true)
    }

    /// A failure that stays until somebody changes something: rights, data of another kind, a defect.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::new(message.into(), false)
    }

    const fn new(message: String, transient: bool) -> Self {
        Self {
            message,
            transient,
            unknown: false,
            source: None,
        }
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Says that the command was, or may have been, sent, and got no definite answer: it may have taken
    /// effect, or may yet do so. Without this the operation has definitely not happened.
    #[must_use]
    pub const fn with_unknown_outcome(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Whether the same operation may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.transient
    }

    /// Whether nobody knows if the operation took effect, or still will.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.unknown
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.unknown {
            f.write_str(" (outcome unknown)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("message", &self.message)
            .field("transient", &self.transient)
            .field("unknown", &self.unknown)
            .field("source", &self.source)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
