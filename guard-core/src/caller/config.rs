//! The settings that every guard has, whatever its store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, SystemClock};
use crate::base::error::ConfigError;
use crate::base::slot::{DEFAULT_KEY_PREFIX, KeyPrefix};
use crate::base::time::LeaseTtl;
use crate::base::token::OwnerLabel;
use crate::caller::observer::GuardObserver;
use crate::store::contract::Capabilities;

/// The default of `retry_interval`: 500 ms.
pub const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The default of `operation_timeout`: 2 s.
pub const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The default of `outage_tolerance`: 10 s.
pub const DEFAULT_OUTAGE_TOLERANCE: Duration = Duration::from_secs(10);

/// The default of `max_hand_overs`: 16.
pub const DEFAULT_MAX_HAND_OVERS: u32 = 16;
/// The default of `max_hand_over_time`: 1 s.
pub const DEFAULT_MAX_HAND_OVER_TIME: Duration = Duration::from_secs(1);

/// The shortest interval and timeout.
const SHORTEST: Duration = Duration::from_millis(1);

/// The settings of a guard as they were given; checked when the guard is made.
///
/// Users meet them as the methods of their store's builder, which
/// [`guard_settings!`](crate::guard_settings) writes.
#[derive(Clone)]
pub struct GuardConfig {
    /// How long a lease lasts without renewal.
    pub lease_ttl: Duration,
    /// How often a waiting entry looks at the slot.
    pub retry_interval: Duration,
    /// The first part of slot names.
    pub key_prefix: String,
    /// The most that one store operation may take.
    pub operation_timeout: Duration,
    /// How long waiting entries put up with a store that fails.
    pub outage_tolerance: Duration,
    /// How often a slot is handed over in a row inside the process.
    pub max_hand_overs: u32,
    /// How long a slot is handed over in a row inside the process.
    pub max_hand_over_time: Duration,
    /// Whether the guard renews its leases.
    pub auto_renew: bool,
    /// How long a lease is renewed at most; for ever if `None`. Only with `auto_renew`.
    pub max_hold: Option<Duration>,
    /// Hears what the guard does.
    pub observer: Option<Arc<dyn GuardObserver>>,
    /// How long the end of the guard waits for releases under way; the operation timeout if `None`.
    pub shutdown_grace: Option<Duration>,
    /// A label for operators that ends up in the token.
    pub owner: Option<String>,
    /// The clock by which leases are judged.
    pub clock: Arc<dyn Clock>,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            lease_ttl: LeaseTtl::DEFAULT,
            retry_interval: DEFAULT_RETRY_INTERVAL,
            key_prefix: DEFAULT_KEY_PREFIX.to_owned(),
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            outage_tolerance: DEFAULT_OUTAGE_TOLERANCE,
            max_hand_overs: DEFAULT_MAX_HAND_OVERS,
            max_hand_over_time: DEFAULT_MAX_HAND_OVER_TIME,
            auto_renew: false,
            max_hold: None,
            observer: None,
            shutdown_grace: None,
            owner: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for GuardConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardConfig")
            .field("lease_ttl", &self.lease_ttl)
            .field("retry_interval", &self.retry_interval)
            .field("key_prefix", &self.key_prefix)
            .field("operation_timeout", &self.operation_timeout)
            .field("outage_tolerance", &self.outage_tolerance)
            .field("max_hand_overs", &self.max_hand_overs)
            .field("max_hand_over_time", &self.max_hand_over_time)
            .field("auto_renew", &self.auto_renew)
            .field("max_hold", &self.max_hold)
            .field("shutdown_grace", &self.shutdown_grace)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// The settings of a guard, checked.
pub(crate) struct Settings {
    pub(crate) ttl: LeaseTtl,
    /// Whether the store frees a slot at its TTL; otherwise the guard does.
    pub(crate) expires: bool,
    /// Whether other processes share the store's slots.
    pub(crate) shared: bool,
    /// How long a lease counts without an answer from the store.
    pub(crate) silence: Duration,
    pub(crate) retry_interval: Duration,
    pub(crate) prefix: KeyPrefix,
    pub(crate) operation_timeout: Duration,
    pub(crate) outage_tolerance: Duration,
    pub(crate) max_hand_overs: u32,
    pub(crate) max_hand_over_time: Duration,
    pub(crate) auto_renew: bool,
    pub(crate) max_hold: Duration,
    pub(crate) observer: Option<Arc<dyn GuardObserver>>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) owner: OwnerLabel,
}

impl GuardConfig {
    /// Checks the settings as far as that is possible without a store. Builders call it before they
    /// connect, so that a wrong setting is reported rather than a server that is away.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidSetting`], which names the setting and the limit.
    pub fn check(&self, capabilities: &Capabilities) -> Result<(), ConfigError> {
        self.settings(capabilities).map(drop)
    }

    pub(crate) fn settings(&self, capabilities: &Capabilities) -> Result<Settings, ConfigError> {
        at_least_shortest("retry_interval", self.retry_interval)?;
        at_least_shortest("operation_timeout", self.operation_timeout)?;
        if self.max_hold.is_some() && !self.auto_renew {
            return Err(ConfigError::setting(
                "max_hold",
                "it bounds the guard's renewal, which is off: set `auto_renew` as well, or leave it to `lease_ttl`",
            ));
        }
        Ok(Settings {
            ttl: LeaseTtl::new(self.lease_ttl, capabilities.max_ttl)?,
            expires: capabilities.expires,
            shared: capabilities.shared,
            silence: capabilities.silence,
            retry_interval: self.retry_interval,
            prefix: KeyPrefix::new(&self.key_prefix)?,
            operation_timeout: self.operation_timeout,
            outage_tolerance: self.outage_tolerance,
            max_hand_overs: self.max_hand_overs,
            max_hand_over_time: self.max_hand_over_time,
            auto_renew: self.auto_renew,
            max_hold: self.max_hold.unwrap_or(Duration::MAX),
            observer: self.observer.clone(),
            shutdown_grace: self.shutdown_grace.unwrap_or(self.operation_timeout),
            owner: self
                .owner
                .as_deref()
                .map_or_else(|| Ok(OwnerLabel::default()), OwnerLabel::new)?,
        })
    }
}

fn at_least_shortest(setting: &'static str, value: Duration) -> Result<(), ConfigError> {
    if value < SHORTEST {
        return Err(ConfigError::setting(
            setting,
            format!("{value:?} is too short, the minimum is {SHORTEST:?}"),
        ));
    }
    Ok(())
}

/// Writes the builder methods for the settings that every guard has, inside the `impl` of a builder with
/// a field `config: GuardConfig`; for authors of stores.
#[macro_export]
macro_rules! guard_settings {
    () => {
        /// Replaces all of the guard's settings at once.
        #[must_use]
        pub fn settings(mut self, settings: $crate::GuardConfig) -> Self {
            self.config = settings;
            self
        }

        /// How long a lease lasts unless it is renewed: the longest that a slot stays blocked by a
        /// holder that died, and the longest that a holder may work. Where a holder's death frees the slot by
        /// itself (databases), it is only the latter: the guard then ends the lease. Default 30 minutes, at
        /// least 1 ms, at most what the store can hold; cut to whole milliseconds.
        #[must_use]
        pub fn lease_ttl(mut self, ttl: ::std::time::Duration) -> Self {
            self.config.lease_ttl = ttl;
            self
        }

        /// How often the first waiter of a slot looks whether it is free when nobody tells it. Shorter
        /// enters sooner and loads the store more. Default 500 ms, at least 1 ms; jittered by ±10 %.
        #[must_use]
        pub fn retry_interval(mut self, interval: ::std::time::Duration) -> Self {
            self.config.retry_interval = interval;
            self
        }

        /// The first part of slot names. Guards with the same prefix share their slots; two guards are
        /// apart only if neither prefix, with a scope appended, begins the other's. Default
        /// `agentscope:sandbox:lock:`; not blank, no NUL; a final `:` is added where it is missing.
        ///
        /// Beside AgentScope's Java services: their Redis guard has the same default, but their one-line store,
        /// `RedisDistributedStore.fromJedis(jedis)`, builds it with `agentscope:guard:`. With different prefixes
        /// both sides enter, and neither is told.
        #[must_use]
        pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
            self.config.key_prefix = prefix.into();
            self
        }

        /// The most that one operation on the store may take, with everything in it. An entry returns
        /// within its own deadline plus this. Default 2 s, at least 1 ms.
        #[must_use]
        pub fn operation_timeout(mut self, timeout: ::std::time::Duration) -> Self {
            self.config.operation_timeout = timeout;
            self
        }

        /// How long waiting entries put up with a store that fails before they return an error. It counts
        /// from the first attempt that failed to the first answer, for each node of the store and over all
        /// entries of the guard; time in which nobody asked does not count. So an entry that comes when the store
        /// has been failing for longer returns after one attempt. An entry whose own attempts have all failed for that
        /// long gives up as well. Zero gives up at the first failure. Default 10 s.
        #[must_use]
        pub fn outage_tolerance(mut self, tolerance: ::std::time::Duration) -> Self {
            self.config.outage_tolerance = tolerance;
            self
        }

        /// How often in a row a lease that is closed hands its slot to the next thread of this process,
        /// which costs the store half, before other processes get their turn. Zero never does. Default 16.
        #[must_use]
        pub fn max_hand_overs(mut self, count: u32) -> Self {
            self.config.max_hand_overs = count;
            self
        }

        /// How long in a row leases that are closed hand their slot on inside this process, counted from
        /// the first hand-over and checked at each close. Default 1 s.
        #[must_use]
        pub fn max_hand_over_time(mut self, time: ::std::time::Duration) -> Self {
            self.config.max_hand_over_time = time;
            self
        }

        /// Renews every lease at a third of its TTL until it is closed, so that a short TTL serves calls of
        /// any length: a TTL of 30 s frees the slot within 30 s of a crash. A holder that hangs holds for
        /// ever then: see [`max_hold`](Self::max_hold). Default off.
        #[must_use]
        pub fn auto_renew(mut self, auto_renew: bool) -> Self {
            self.config.auto_renew = auto_renew;
            self
        }

        /// How long after entering a lease is no longer renewed by the guard; it then lasts for the rest of
        /// its TTL. Only with [`auto_renew`](Self::auto_renew). Default: it is always renewed.
        #[must_use]
        pub fn max_hold(mut self, max_hold: ::std::time::Duration) -> Self {
            self.config.max_hold = Some(max_hold);
            self
        }

        /// Who hears what the guard does, for a service's own metrics.
        #[must_use]
        pub fn observer(mut self, observer: ::std::sync::Arc<dyn $crate::GuardObserver>) -> Self {
            self.config.observer = Some(observer);
            self
        }

        /// How long dropping the last handle of the guard waits for releases that could not be made at
        /// once. Default: the operation timeout.
        #[must_use]
        pub fn shutdown_grace(mut self, grace: ::std::time::Duration) -> Self {
            self.config.shutdown_grace = Some(grace);
            self
        }

        /// A label that tells operators who holds a slot, such as the host's or the service's name. It
        /// ends up in the token and comes back from `holder`. Default none; at most 128 bytes.
        #[must_use]
        pub fn owner(mut self, label: impl Into<String>) -> Self {
            self.config.owner = Some(label.into());
            self
        }
    };
}
