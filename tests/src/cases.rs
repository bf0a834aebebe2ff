//! The cases: one topic a file, one promise a function. They are listed in `suite`.

pub(crate) mod closing;
pub(crate) mod contract;
mod counting;
pub(crate) mod exclusion;
pub(crate) mod expiry;
pub(crate) mod faults;
pub(crate) mod foreign;
pub(crate) mod handing_over;
pub(crate) mod holder;
pub(crate) mod interrupts;
pub(crate) mod keys;
pub(crate) mod lifecycle;
pub(crate) mod loss;
pub(crate) mod processes;
pub(crate) mod release;
pub(crate) mod waiting;
pub(crate) mod wakeups;
