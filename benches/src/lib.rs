//! What the guards cost, beside the floor and the peers.
//!
//! Everything that is measured is here once, for the criterion benches (`cargo bench -p guard-benches`) and for
//! the report that puts ratios side by side (`cargo run --release -p guard-benches`).
//!
//! # Map
//!
//! | where | what |
//! |---|---|
//! | [`guards`] | the guards as users make them, and a section: enter + close |
//! | [`floor`] | the least that the same work takes on the same store |
//! | [`peers`] | what crates.io has for the same job |
//! | [`handover`] | from one holder's close to the next holder's entry |
//! | [`other_process`] | a holder in a process of its own |
//! | [`crowd`] | many threads at one slot, or at one each |
//! | [`renewal`] | many leases that are renewed |
//! | [`samples`] | figures of many rounds, taken in turns |
//! | `src/bin/ratios` | the report |
//! | `criterion` | the criterion benches |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod crowd;
pub mod floor;
pub mod guards;
pub mod handover;
pub mod other_process;
pub mod peers;
pub mod renewal;
pub mod samples;
