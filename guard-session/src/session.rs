//! What a database has to bring along.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use guard_core::{Budget, LeaseToken, OwnerLabel, SlotName, StoreError};

/// How long a session waits for a lock in one call. Shorter notices sooner that a server is gone; longer keeps
/// its place in the server's queue.
pub const LOCK_SLICE: Duration = Duration::from_secs(5);

/// Begins what stands for a token where only the session is known.
const SESSION: &str = "session ";

/// A database that gives out named locks which end with their session.
pub trait Database: Send + Sync + 'static {
    /// One session.
    type Session: Session;

    /// How long a holder counts on its session without hearing from it: less than the server takes to give up
    /// a session that it does not hear.
    fn silence(&self) -> Duration;

    /// Opens a session, within the budget.
    ///
    /// # Errors
    ///
    /// As [`LeaseStore`](guard_core::LeaseStore) classifies them; no outcome is unknown here.
    fn open(&self, budget: Budget) -> Result<Self::Session, StoreError>;

    /// Ends every session at once, without a word to the server, so that nobody waits any longer for an answer. The
    /// default leaves them to whoever has them.
    fn cut_off(&self) {}
}

/// One session with a database. Dropping it closes it without waiting. Every call is one statement that ends
/// within its budget.
pub trait Session: Send + 'static {
    /// By what the server knows this session, for as long as it remembers: not only a number that a later one
    /// may get.
    fn id(&self) -> &SessionId;

    /// Takes the slot's lock if it is free; answers whether it did.
    ///
    /// # Errors
    ///
    /// See [`Failure`]. A session that turns out not to be its user's alone (a pooler shares it) is a permanent
    /// [`Failure::Answer`], and has locked nothing.
    fn try_lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure>;

    /// Waits for the slot's lock, for [`LOCK_SLICE`] at most; answers whether it took it.
    ///
    /// # Errors
    ///
    /// As for [`try_lock`](Self::try_lock). A lock that comes when the server is the right one no more is
    /// [`Failure::Ended`].
    fn lock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure>;

    /// Frees the slot's lock; answers whether this session held it.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    fn unlock(&mut self, slot: &SlotName, budget: Budget) -> Result<bool, Failure>;

    /// Makes sure that the session lives and is still its user's alone, and that its server is one whose locks
    /// exclude.
    ///
    /// # Errors
    ///
    /// See [`Failure`]; a session that is another one by now has ended.
    fn probe(&mut self, budget: Budget) -> Result<(), Failure>;

    /// The same without keeping the caller's thread, so that many sessions are asked at once. It may be dropped
    /// before it is answered; the session then stays what it was. The default keeps the thread.
    fn probing(&mut self, budget: Budget) -> impl Future<Output = Result<(), Failure>> {
        async move { self.probe(budget) }
    }

    /// Makes sure of the same, and that no stranger was seen to use `other`, an idle session of the same user.
    /// The default looks at this session only.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    fn vouch(&mut self, other: &SessionId, budget: Budget) -> Result<(), Failure> {
        let _ = other;
        self.probe(budget)
    }

    /// Who holds the slot's lock.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    fn holder(&mut self, slot: &SlotName, budget: Budget) -> Result<Option<LockHolder>, Failure>;

    /// Ends another session and waits until what it held is free. Answers whether there was one. One with a
    /// [mark](SessionId::mark) is ended only where the mark proves in the same step that nobody else uses it; one
    /// without is ended because an operator wants it. With `holding` it is ended only if it holds that slot's lock in
    /// the same step.
    ///
    /// # Errors
    ///
    /// See [`Failure`]. A session that cannot be told to be ours alone is left alone, which is a transient
    /// [`Failure::Answer`]; one that the account has no right to end is a permanent one that names the right.
    fn end(
        &mut self,
        other: &SessionId,
        holding: Option<&SlotName>,
        budget: Budget,
    ) -> Result<bool, Failure>;
}

/// Names a session to the server that it belongs to; what it says is up to the database. Equal names are equal
/// sessions, whatever their marks.
#[derive(Clone, Debug)]
pub struct SessionId {
    name: Arc<str>,
    mark: Option<Arc<str>>,
}

impl SessionId {
    /// Wraps a name.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            mark: None,
        }
    }

    /// Adds what only this session carries at the server: a random text, so that a later session that is given
    /// the same name, or a stranger that shares the session, is not taken for it.
    #[must_use]
    pub fn with_mark(mut self, mark: impl Into<Arc<str>>) -> Self {
        self.mark = Some(mark.into());
        self
    }

    /// A mark that was never made before, in hexadecimal digits.
    #[must_use]
    pub fn new_mark() -> String {
        LeaseToken::generate(&OwnerLabel::default())
            .as_str()
            .to_owned()
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The mark of a session of this store; none of a session that is only seen from elsewhere.
    #[must_use]
    pub fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// What stands for the token of a lease of which only the session is known.
    pub(crate) fn as_token(&self) -> LeaseToken {
        LeaseToken::from_store(format!("{SESSION}{}", self.name))
    }

    /// The session that `token` stands for, if it is no token of an entry.
    pub(crate) fn of(token: &LeaseToken) -> Option<Self> {
        let name = token.as_str().strip_prefix(SESSION)?;
        // A label may begin in the same way, but has the random part of a token of ours behind it.
        token.owner().is_none().then(|| Self::new(name))
    }
}

/// A comment in SQL with which all statements of the session with this mark begin: whoever looks at what a session does,
/// or did last, sees whose it is.
#[must_use]
pub fn comment(mark: &str) -> String {
    format!("/*sandbox guard {mark}*/")
}

impl PartialEq for SessionId {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SessionId {}

impl Hash for SessionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Who holds a lock, from the database's own catalogue.
#[derive(Clone, Debug)]
pub struct LockHolder {
    /// The holder's session.
    pub session: SessionId,
    /// What the session calls itself.
    pub owner: Option<String>,
    /// Since when the session has been there.
    pub since: Option<SystemTime>,
    /// What operators call the session.
    pub description: String,
}

/// Why a call on a session failed, by what that means for the session.
#[derive(Debug)]
pub enum Failure {
    /// The server answered with an error: nothing has changed, and the session lives.
    Answer(StoreError),
    /// The session was over before the call, or its server is none whose locks exclude (a standby, a read-only
    /// one): nothing was done, and nothing is to be done on this session any more.
    Unfit(StoreError),
    /// The session has ended, or cannot be used any more. What was asked may have been done before.
    Ended(StoreError),
    /// No answer came in time. The session may still do what it was asked, and answer later calls.
    Unanswered(StoreError),
}

impl Failure {
    /// No time was left, so nothing was sent.
    #[must_use]
    pub fn out_of_time(operation: &str) -> Self {
        Self::Answer(StoreError::transient(format!(
            "{operation}: the operation timeout has passed (see `operation_timeout`)"
        )))
    }

    /// Nothing came within the time.
    #[must_use]
    pub fn no_answer(operation: &str) -> Self {
        Self::Unanswered(StoreError::transient(format!(
            "{operation}: no answer within the operation timeout (see `operation_timeout`)"
        )))
    }

    /// The bare error, for a session that has not begun: nothing of it can be unknown.
    #[must_use]
    pub fn into_bare_error(self) -> StoreError {
        match self {
            Self::Answer(error)
            | Self::Unfit(error)
            | Self::Ended(error)
            | Self::Unanswered(error) => error,
        }
    }

    /// Whether what was asked may have been done, or may yet be.
    pub(crate) const fn leaves_doubt(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Unanswered(_))
    }

    /// Whether the session is of no use any more.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Unfit(_))
    }

    /// What the guard is told.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Answer(error) | Self::Unfit(error) => error,
            Self::Ended(error) | Self::Unanswered(error) => error.with_unknown_outcome(),
        }
    }
}
