//! The servers, the faults and the other programs that the tests of our own stores need. The suite that these stores
//! pass is [`guard_conformance`].
//!
//! # Map
//!
//! | where | what |
//! |---|---|
//! | [`redis_server`], [`postgres_server`], [`pgbouncer`], [`mariadb_server`], [`multiplexer`] | a real server of one's own, and faults for it |
//! | [`redis_topologies`] | several of them: sentinels with their master and replicas, a cluster |
//! | [`replicas`] | a master with replicas |
//! | [`daemon`] | what their processes have in common |
//! | [`database`] | what a database among them brings along, whose sessions carry the locks |
//! | [`acl`] | the rules for users that the Redis store's pages give |
//! | [`certificates`] | certificates that are made for one test |
//! | [`monitor`] | what clients ask a Redis server |
//! | [`history`] | proves that a recorded history kept the promises |
//! | [`chaos`] | what the chaos tests and their client processes agree on |
//! | [`random`] | choices that a seed repeats |
//! | [`everything_said`] | what errors say |
//! | [`logged`] | what is logged |
//! | `src/bin/lease_holder.rs` | the other process of the suite |
//! | `src/bin/chaos_client.rs` | a process that uses leases and writes its history |
//! | `tests/memory.rs`, `tests/redis.rs`, `tests/postgres.rs`, `tests/mariadb.rs` | the suite on each store |
//! | `tests/database_faults`, `tests/database_timings` | what every database is asked; a database joins with a [`Database`](database::Database) and a target of a few lines, such as `tests/mariadb_faults/main.rs` |
//! | `tests/engine_faults` | what the engine makes of stores, callbacks and clocks that misbehave |
//! | `tests/suspended_clock.rs` | the clock of leases on a machine that was suspended |
//! | `tests/memory_*.rs`, `tests/redis_*.rs`, `tests/postgres_*.rs`, `tests/mariadb_*.rs` | what only one store can be asked |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod acl;
pub mod certificates;
pub mod chaos;
pub mod daemon;
pub mod database;
pub mod history;
pub mod logged;
pub mod mariadb_server;
pub mod monitor;
pub mod multiplexer;
pub mod pgbouncer;
pub mod postgres_server;
pub mod random;
pub mod redis_server;
pub mod redis_topologies;
pub mod replicas;
mod said;

pub use said::everything_said;
