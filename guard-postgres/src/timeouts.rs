//! How soon either end notices that the other is gone.

use std::time::Duration;

/// How long a network may take to connect; no server has begun anything before.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Both ends notice within half a minute that the other is gone: after this time without a word they ask, …
pub(crate) const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// … so often …
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// … until so many questions went unanswered.
pub(crate) const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent data may go unacknowledged.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// How long the server bears with a session that asks for nothing; a held one is asked every few seconds. Whatever
/// stands in between may answer for a client that is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// What every session sets at the server, where the server knows the setting: it notices a client that is dead or
/// says nothing, and ends no statement because it takes long.
pub(crate) fn settings(lock_timeout: Duration) -> String {
    let settings = [
        ("tcp_keepalives_idle", KEEPALIVE_IDLE.as_secs().into()),
        (
            "tcp_keepalives_interval",
            KEEPALIVE_INTERVAL.as_secs().into(),
        ),
        ("tcp_keepalives_count", u128::from(KEEPALIVE_RETRIES)),
        ("tcp_user_timeout", USER_TIMEOUT.as_millis()),
        ("idle_session_timeout", IDLE_TIMEOUT.as_millis()),
        ("statement_timeout", 0),
        ("transaction_timeout", 0),
        ("lock_timeout", lock_timeout.as_millis()),
    ];
    let values = settings.map(|(name, value)| format!("('{name}', '{value}')"));
    format!(
        "SELECT set_config(name, value, false) FROM (VALUES {}) AS wanted (name, value) \
         WHERE name IN (SELECT name FROM pg_settings)",
        values.join(", ")
    )
}
