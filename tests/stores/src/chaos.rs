//! What the chaos tests and their client processes agree on.

use std::time::Duration;

/// The TTL of the leases, which are renewed.
pub const TTL: Duration = Duration::from_secs(2);
/// The guards' operation timeout.
pub const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);
/// The guards' outage tolerance.
pub const OUTAGE_TOLERANCE: Duration = Duration::from_secs(3);
/// The slots.
pub const SLOTS: [&str; 4] = ["a", "b", "c", "d"];
