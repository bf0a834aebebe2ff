//! A process that was forked: its copy of a guard is inert, and what it builds itself is its own.
//!
//! No test harness: its threads would be copied in the middle of what they do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, panic, process, thread};

use fork::Fork;
use guard_conformance::PATIENCE;
use guard_core::{
    CloseOutcome, GuardError, IsolationScope, SandboxExecutionGuard, SandboxIsolationKey,
};
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::Database;
use guard_store_tests::mariadb_server::MariaDb;
use guard_store_tests::postgres_server::Postgres;
use guard_store_tests::redis_server::RedisServer;

type Guard = Arc<dyn SandboxExecutionGuard>;

const TTL: Duration = Duration::from_secs(60);

fn key(name: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, name).unwrap()
}

/// Runs `work` in a copy of this process, and waits for its end.
fn in_child(work: impl FnOnce()) {
    let child = match fork::fork().unwrap() {
        Fork::Child => {
            let done = panic::catch_unwind(panic::AssertUnwindSafe(work));
            // Destructors of what the parent's frames hold do not run.
            process::exit(i32::from(done.is_err()));
        }
        Fork::Parent(child) => child,
    };
    let begun = Instant::now();
    loop {
        if let Some(status) = fork::waitpid_nohang(child).unwrap() {
            assert_eq!(status, 0, "the child has failed");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the child hangs");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a child does with an inherited lease and its guard changes nothing for the parent.
fn a_lease_that_a_child_inherited_is_inert(build: &dyn Fn() -> Guard) {
    let guard = build();
    let leases = ["a", "b"].map(|name| guard.try_enter(&key(name)).unwrap());
    let [kept, dropped] = leases;
    let (guard, kept, mut dropped) = (Some(guard), kept, Some(dropped));
    let mut inherited = guard.clone();
    in_child(|| {
        let guard = inherited.take().unwrap();
        assert!(!kept.is_held() && kept.remaining().is_zero());
        assert!(kept.renew().is_err());
        assert!(kept.on_lost(|| {}).is_err());
        assert_eq!(kept.close(), CloseOutcome::AlreadyGone);
        drop(dropped.take());
        let entered = guard.try_enter_now(&key("c"));
        assert!(matches!(entered, Err(GuardError::Forked { .. })));
        let holder = guard.holder(&key("a"));
        assert!(matches!(holder, Err(GuardError::Forked { .. })));
        guard.close();
        drop(guard);

        let own = build();
        assert!(own.try_enter_now(&key("a")).unwrap().is_none());
        assert!(own.try_enter_now(&key("b")).unwrap().is_none());
        own.try_enter_for(&key("c"), PATIENCE).unwrap().close();
    });
    // The child has exited, with whatever that closes.
    let guard = guard.unwrap();
    for lease in [Some(kept), dropped].into_iter().flatten() {
        assert!(lease.is_held());
        lease.renew().unwrap();
        assert_eq!(lease.close(), CloseOutcome::Released);
    }
    guard.try_enter_for(&key("a"), PATIENCE).unwrap().close();
}

/// Each child draws tokens of its own, though it has a copy of whatever its parent drew them from.
fn children_of_one_process_never_draw_the_same_token(build: &dyn Fn() -> Guard, folder: &Path) {
    let guard = build();
    guard.try_enter(&key("d")).unwrap().close();
    let tokens = ["first", "second", "third"].map(|name| {
        let file = folder.join(name);
        in_child(|| {
            let lease = build().try_enter_for(&key(name), PATIENCE).unwrap();
            fs::write(&file, lease.token().as_str()).unwrap();
        });
        fs::read_to_string(&file).unwrap()
    });
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != tokens[2]);
}

fn both(store: &str, build: &dyn Fn() -> Guard) {
    let folder = tempfile::tempdir().unwrap();
    a_lease_that_a_child_inherited_is_inert(build);
    println!("test {store}: a_lease_that_a_child_inherited_is_inert ... ok");
    children_of_one_process_never_draw_the_same_token(build, folder.path());
    println!("test {store}: children_of_one_process_never_draw_the_same_token ... ok");
}

fn on_database<D: Database>(store: &str) {
    let server = Daemon::<D>::start();
    both(store, &|| {
        let builder = server.builder().lease_ttl(TTL);
        Arc::new(builder.build().unwrap())
    });
}

fn main() {
    let server = RedisServer::start();
    both("Redis", &|| {
        let builder = RedisSandboxExecutionGuard::builder(server.url()).lease_ttl(TTL);
        Arc::new(builder.build().unwrap())
    });
    on_database::<Postgres>("PostgreSQL");
    on_database::<MariaDb>("MariaDB");
}
