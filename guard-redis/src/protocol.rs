//! What is said: scripts, answers, errors and what they mean. Nothing here has a connection.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod fencing_counter;
pub(crate) mod lease_answers;
pub(crate) mod script;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls_error;
