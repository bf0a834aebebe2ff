//! Watching a guard at work, for a service's own metrics.

use std::time::Duration;

use crate::base::slot::SlotName;
use crate::base::token::FencingToken;
use crate::caller::lease::CloseOutcome;

/// Hears what a guard does. Every method does nothing unless it is overridden.
///
/// The methods run one after the other on a thread of their own, so a slow observer delays no entry, no close, no
/// renewal and no `on_lost` callback. At most 4,096 events wait for it; further ones are left out, and a warning
/// tells how many. A panic is caught and logged.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use guard_core::{EnterEvent, GuardObserver};
///
/// #[derive(Default)]
/// struct Waits { micros: AtomicU64 }
///
/// impl GuardObserver for Waits {
///     fn on_enter(&self, event: &EnterEvent) {
///         let micros = u64::try_from(event.waited().as_micros()).unwrap_or(u64::MAX);
///         self.micros.fetch_add(micros, Ordering::Relaxed);
///     }
/// }
/// ```
pub trait GuardObserver: Send + Sync {
    /// An entry found its slot held, or others before it, and waits.
    fn on_wait(&self, event: &WaitEvent) {
        let _ = event;
    }

    /// An entry got its lease.
    fn on_enter(&self, event: &EnterEvent) {
        let _ = event;
    }

    /// A lease was closed.
    fn on_close(&self, event: &CloseEvent) {
        let _ = event;
    }

    /// A lease was found lost.
    fn on_lost(&self, event: &LostEvent) {
        let _ = event;
    }

    /// A server of the store began to fail, or answers again.
    fn on_outage(&self, event: &OutageEvent) {
        let _ = event;
    }
}

/// See [`GuardObserver::on_wait`].
#[derive(Clone, Debug)]
pub struct WaitEvent {
    pub(crate) slot: SlotName,
}

/// See [`GuardObserver::on_enter`].
#[derive(Clone, Debug)]
pub struct EnterEvent {
    pub(crate) slot: SlotName,
    pub(crate) waited: Duration,
    pub(crate) fencing: Option<FencingToken>,
}

/// See [`GuardObserver::on_close`].
#[derive(Clone, Debug)]
pub struct CloseEvent {
    pub(crate) slot: SlotName,
    pub(crate) held_for: Duration,
    pub(crate) outcome: CloseOutcome,
}

/// See [`GuardObserver::on_lost`].
#[derive(Clone, Debug)]
pub struct LostEvent {
    pub(crate) slot: SlotName,
    pub(crate) held_for: Duration,
    pub(crate) reason: &'static str,
}

/// See [`GuardObserver::on_outage`].
#[derive(Clone, Debug)]
pub struct OutageEvent {
    pub(crate) lasted: Duration,
    pub(crate) over: bool,
}

impl WaitEvent {
    /// The slot's name.
    #[must_use]
    pub fn slot(&self) -> &str {
        self.slot.as_str()
    }
}

impl EnterEvent {
    /// The slot's name.
    #[must_use]
    pub fn slot(&self) -> &str {
        self.slot.as_str()
    }

    /// How long the entry took.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease's fencing token, where the store numbers its leases.
    #[must_use]
    pub const fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing
    }
}

impl CloseEvent {
    /// The slot's name.
    #[must_use]
    pub fn slot(&self) -> &str {
        self.slot.as_str()
    }

    /// How long the lease was held.
    #[must_use]
    pub const fn held_for(&self) -> Duration {
        self.held_for
    }

    /// What closing did.
    #[must_use]
    pub const fn outcome(&self) -> CloseOutcome {
        self.outcome
    }
}

impl LostEvent {
    /// The slot's name.
    #[must_use]
    pub fn slot(&self) -> &str {
        self.slot.as_str()
    }

    /// How long the lease was held.
    #[must_use]
    pub const fn held_for(&self) -> Duration {
        self.held_for
    }

    /// How the loss showed.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }
}

impl OutageEvent {
    /// How long the outage has lasted; zero when it begins.
    #[must_use]
    pub const fn lasted(&self) -> Duration {
        self.lasted
    }

    /// Whether the server answers again.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }
}
