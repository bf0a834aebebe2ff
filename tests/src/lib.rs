//! The one suite that every store of sandbox execution guards passes.
//!
//! A store joins with a [`Backend`] and a test target without libtest's harness:
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     guard_conformance::run(MyBackend::start())
//! }
//! ```
//!
//! # Map
//!
//! | where | what |
//! |---|---|
//! | [`backend`] | what a store has to bring along |
//! | `suite` | the list of cases, and how they run |
//! | `cases` | the cases, one topic a file, one promise a function |
//! | `fixture` | what a case starts from: a prefix of its own, guards, keys, waiting for events |
//! | `waiting` | threads that are known to wait |
//! | [`measure`] | times of many rounds, and what is typical of them |
//! | `vectors` | the readers of `data/*.tsv` |
//! | [`proxy`] | a TCP proxy with faults on command |
//! | [`forward_to!`] | stores that change only some of another store's steps |
//!
//! Cases run beside each other on one server that may be shared: each has a key prefix of its own, and
//! nothing is ever flushed. They wait for events; a bound on time stands only where time is the promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod backend;
mod cases;
mod fixture;
mod forward;
mod lease_holder;
pub mod measure;
pub mod proxy;
mod suite;
mod vectors;
mod waiting;

pub use backend::{Backend, Foreign, Network};
pub use fixture::{PATIENCE, eventually, unique_prefix};
#[doc(hidden)]
pub use guard_core;
pub use lease_holder::lease_holder;
pub use suite::{Start, run, run_each};
pub use vectors::{AdvisoryRow, advisory_rows};
pub use waiting::{Waiting, together};
