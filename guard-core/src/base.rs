//! What both sides of the seam speak of: keys and slots, tokens, times, errors. It knows neither of them.

pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod key;
pub(crate) mod panics;
pub(crate) mod random;
pub(crate) mod scope;
pub(crate) mod slot;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod token;
