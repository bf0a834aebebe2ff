//! Leases over locks that belong to a database session, such as PostgreSQL's and MySQL's advisory locks.
//!
//! A store of this kind implements [`Database`] and [`Session`], a few statements each, and gets a
//! [`LeaseStore`](guard_core::LeaseStore) by [`SessionStore`].
//!
//! # How it works
//!
//! - **A held lease owns its session**, and a session carries one lease at most. Sessions that carry none are
//!   kept for the next operation.
//! - **`acquire`** is one statement that tries the lock. Granted, the session is bound to the token; else it
//!   goes back at once. **`hand_over`** binds the session to the next token, after one statement that proves
//!   that it lives. **`release`** unlocks and keeps the session for others.
//! - **Finality.** A session is good for further use only after a definite answer. Any other one is closed,
//!   and where nobody knows whether its end has reached the server, it is ended from another session before
//!   the release of its token answers. What a session held ends with it. A token of which a call is still under way
//!   on another thread is not released yet. Only a session that is proven to be this store's alone is ended.
//! - **Waiting.** A slot that somebody waits for is given to one of a few threads, each of which blocks in the
//!   database's own lock call. The session that gets the lock is kept for the waiter, who is woken and
//!   claims it without a further statement. Slots for which there is no thread are polled.
//!
//! | where | what |
//! |---|---|
//! | `session` | what a database has to bring along |
//! | `store` | the store contract |
//! | `inner` | the session of a lease: asked, freed, ended |
//! | `leases` | which session carries which token's lease |
//! | `links` | sessions for operations |
//! | `ghosts` | calls under way, and sessions that have to be ended |
//! | `waits` | the threads that wait in the database |
//! | `process` | what is not a forked child's |
//! | `opener` | for asynchronous clients: opening sessions, one attempt for all while that fails |
//! | `reactor` | for asynchronous clients: who moves their bytes, and how callers wait for them |
//! | `text` | addresses and words of servers, as they may be shown |

mod ghosts;
mod inner;
mod leases;
mod links;
mod opener;
mod process;
mod reactor;
mod session;
mod store;
mod text;
mod waits;

pub use opener::{Dial, Opener, Place, Target};
pub use process::Process;
pub use reactor::within;
pub use session::{Database, Failure, LOCK_SLICE, LockHolder, Session, SessionId, comment};
pub use store::{DEFAULT_POOL_SIZE, DEFAULT_WAIT_CONNECTIONS, SessionSettings, SessionStore};
pub use text::{check_url, is_host};
