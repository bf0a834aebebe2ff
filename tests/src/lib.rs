//! The one suite that every store of sandbox execution guards passes, and real servers to run it on.
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
//! | [`history`] | proves that a recorded history kept the promises |
//! | [`forward_to!`] | stores that change only some of another store's steps |
//! | [`everything_said`] | what errors say |
//! | [`logged`] | what is logged |
//! | [`monitor`] | what clients ask a Redis server |
//! | [`random`] | choices that a seed repeats |
//! | [`redis_server`], [`postgres_server`], [`pgbouncer`], [`mariadb_server`], [`multiplexer`] | a real server of one's own, and faults for it |
//! | [`daemon`] | what their processes have in common |
//! | [`database`] | what a database among them brings along, whose sessions carry the locks |
//! | [`redis_topologies`] | several of them: sentinels with their master and replicas, a cluster |
//! | [`replicas`] | a master with replicas |
//! | [`acl`] | the rules for users that the Redis store's pages give |
//! | [`certificates`] | certificates that are made for one test |
//! | `src/bin/lease_holder.rs` | the other process |
//! | `src/bin/chaos_client.rs` | a process that uses leases and writes its history |
//! | `tests/memory.rs`, `tests/redis.rs`, `tests/postgres.rs`, `tests/mariadb.rs` | the suite on each store |
//! | `tests/database_faults`, `tests/database_timings` | what every database is asked; a database joins with a [`Database`](database::Database) and a target of a few lines, such as `tests/mariadb_faults/main.rs` |
//! | `tests/engine_faults` | what the engine makes of stores, callbacks and clocks that misbehave |
//! | `tests/suspended_clock.rs` | the clock of leases on a machine that was suspended |
//! | `tests/memory_*.rs`, `tests/redis_*.rs`, `tests/postgres_*.rs`, `tests/mariadb_*.rs` | what only one store can be asked |
//!
//! Cases run beside each other on one server that may be shared: each has a key prefix of its own, and
//! nothing is ever flushed. They wait for events; a bound on time stands only where time is the promise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod acl;
pub mod backend;
mod cases;
pub mod certificates;
pub mod chaos;
pub mod daemon;
pub mod database;
mod fixture;
mod forward;
pub mod history;
pub mod logged;
pub mod mariadb_server;
pub mod measure;
pub mod monitor;
pub mod multiplexer;
pub mod pgbouncer;
pub mod postgres_server;
pub mod proxy;
pub mod random;
pub mod redis_server;
pub mod redis_topologies;
pub mod replicas;
mod said;
mod suite;
mod vectors;
mod waiting;

pub use backend::{Backend, Foreign};
pub use fixture::{PATIENCE, eventually, unique_prefix};
#[doc(hidden)]
pub use guard_core;
pub use said::everything_said;
pub use suite::run;
pub use vectors::{AdvisoryRow, advisory_rows};
pub use waiting::{Waiting, together};
