//! Unix sockets: they fail in time, and what went unanswered on one comes to an end.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually, together};
use guard_core::{Budget, LeaseStore, Released};
use guard_redis::{RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::{RedisServer, Setup};
use tempfile::TempDir;

use crate::{OPERATION_TIMEOUT, SLACK, entry_to_a_stopped, key};

/// A server at a socket whose path has a space in it.
struct Scene {
    server: RedisServer,
    socket: PathBuf,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let socket = directory.path().join("redis.sock");
        let server = RedisServer::start_with(Setup {
            arguments: [&["--unixsocket", &socket.display().to_string()], arguments]
                .concat()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            ..Setup::default()
        });
        Self {
            server,
            socket,
            _directory: directory,
        }
    }

    fn builder(&self) -> RedisGuardBuilder {
        let path = self.socket.display().to_string().replace(' ', "%20");
        RedisSandboxExecutionGuard::builder(format!("unix://{path}"))
            .operation_timeout(OPERATION_TIMEOUT)
            .outage_tolerance(Duration::ZERO)
            // No release of these tests waits so long.
            .ghost_window(Duration::from_secs(600))
    }
}

#[test]
fn a_stopped_server_costs_the_operation_timeout_and_leaves_no_ghost() {
    let scene = Scene::new();
    let guard = scene.builder().build().unwrap();
    drop(guard.try_enter(&key("warm")).unwrap());
    let slot = guard.slot(&key("a"));
    entry_to_a_stopped(&scene.server, &guard);
    eventually("the slot is free of the unanswered command", || {
        scene.server.cli(&["EXISTS", slot.as_str()]) == "0"
    });
    // Nothing of it comes later, either.
    thread::sleep(SLACK / 10);
    drop(guard.try_enter(&key("a")).unwrap());
}

/// Without the connection's identity at the server the release would not be final for ten minutes.
#[test]
fn a_connection_whose_command_went_unanswered_is_ended_at_the_server() {
    let scene = Scene::new();
    let guard = scene.builder().build().unwrap();
    let (store, slot) = (guard.store(), guard.slot(&key("a")));
    let lease = guard.try_enter(&key("other")).unwrap();
    let (token, ttl) = (
        lease.token().clone(),
        guard_core::LeaseTtl::new(Duration::from_secs(60), Duration::MAX).unwrap(),
    );
    scene.server.stop_process();
    let answer = store.acquire(&slot, &token, ttl, Budget::new(OPERATION_TIMEOUT));
    scene.server.cont_process();
    assert!(answer.expect_err("a stopped server").is_unknown());
    assert!(store.in_doubt(&token));
    let budget = || Budget::new(PATIENCE);
    let released: Released = store.release(&slot, &token, budget()).unwrap();
    assert!(!store.in_doubt(&token), "{released:?}");
    thread::sleep(SLACK / 10);
    assert_eq!(scene.server.cli(&["EXISTS", slot.as_str()]), "0");
}

/// A socket's queue of connections fills up while its server is stopped; after that, connecting hangs in the
/// operating system.
#[test]
fn a_socket_whose_queue_is_full_costs_the_operation_timeout() {
    const CALLERS: usize = 6;
    let scene = Scene::with(&["--tcp-backlog", "1"]);
    let guard = scene.builder().build().unwrap();
    scene.server.stop_process();
    for _ in 0..3 {
        together(CALLERS, |caller| {
            let before = Instant::now();
            let error = guard.try_enter(&key(&caller.to_string()));
            let took = before.elapsed();
            assert!(error.expect_err("a stopped server").is_transient());
            assert!(took < OPERATION_TIMEOUT + SLACK, "{took:?}");
        });
    }
    eventually("one thread at most is left behind", || hanging() <= 1);
    scene.server.cont_process();
    for caller in 0..CALLERS {
        let entered = guard.try_enter_for(&key(&caller.to_string()), PATIENCE);
        drop(entered.unwrap());
    }
    eventually("no thread is left behind", || hanging() == 0);
}

/// How many threads are opening sockets.
fn hanging() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "guard-socket")
        .count()
}

#[test]
fn a_socket_that_is_not_there_is_a_passing_failure() {
    let mut scene = Scene::new();
    scene.server.kill();
    let error = scene.builder().build().expect_err("no server");
    assert!(error.is_transient(), "{error:?}");
    let nowhere = RedisSandboxExecutionGuard::builder("unix:///nowhere/redis.sock").build();
    let error = nowhere.expect_err("no socket");
    assert!(
        error.to_string().contains("unix:///nowhere/redis.sock"),
        "{error}"
    );
}
