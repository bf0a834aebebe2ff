//! What waiting costs the server: commands of clients, counted by MONITOR.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_redis::{GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::monitor::Monitor;
use guard_store_tests::redis_server::RedisServer;

use crate::key;

const THREADS: usize = 100;
const WAIT: Duration = Duration::from_secs(10);
/// The promise.
const AT_MOST: usize = 30;
const RENEWAL: Duration = Duration::from_millis(20);
/// The promise with a holder that renews so often.
const AT_MOST_WITH_RENEWALS: usize = 550;

/// A hundred threads wait in vain, while `holder` does what it does; answers what clients asked.
fn commands_of_a_crowd(
    server: &RedisServer,
    guard: &RedisSandboxExecutionGuard,
    holder: impl FnOnce(Instant) + Send,
) -> Vec<String> {
    let monitor = Monitor::start(server);
    let end = Instant::now() + WAIT;
    thread::scope(|scope| {
        scope.spawn(move || holder(end));
        for _ in 0..THREADS {
            scope.spawn(|| {
                let outcome = guard.try_enter_until(&key("a"), end);
                assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
            });
        }
    });
    monitor.stop()
}

fn raw(server: &RedisServer) -> redis::Connection {
    redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap()
}

#[test]
fn a_hundred_threads_that_wait_ten_seconds_cost_thirty_commands() {
    let server = RedisServer::start();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .build()
        .unwrap();
    server.cli(&["SET", guard.slot(&key("a")).as_str(), "foreign"]);
    let commands = commands_of_a_crowd(&server, &guard, |_| {});
    println!("{} commands", commands.len());
    assert!(!commands.is_empty(), "MONITOR saw them");
    assert!(commands.len() <= AT_MOST, "{commands:#?}");
}

#[test]
fn a_lease_of_the_same_process_is_waited_for_as_cheaply() {
    let server = RedisServer::start();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .build()
        .unwrap();
    let _lease = guard.try_enter(&key("a")).unwrap();
    let commands = commands_of_a_crowd(&server, &guard, |_| {});
    println!("{} commands", commands.len());
    assert!(commands.len() <= AT_MOST, "{commands:#?}");
}

#[test]
fn a_holder_that_renews_often_makes_them_cost_no_more_than_550() {
    let server = RedisServer::start();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .build()
        .unwrap();
    let slot = guard.slot(&key("a")).to_string();
    server.cli(&["SET", &slot, "foreign", "PX", "60000"]);
    let mut connection = raw(&server);
    let commands = commands_of_a_crowd(&server, &guard, |end| {
        while Instant::now() < end {
            let renewed: bool = redis::Cmd::pexpire(&slot, 60_000)
                .query(&mut connection)
                .unwrap();
            assert!(renewed);
            thread::sleep(RENEWAL);
        }
    });
    let (own, others): (Vec<_>, Vec<_>) = commands
        .iter()
        .partition(|command| command.contains("\"PEXPIRE\""));
    println!(
        "{} commands beside {} of the holder",
        others.len(),
        own.len()
    );
    assert!(own.len() > 300, "the holder renewed often: {}", own.len());
    assert!(
        others.len() <= AT_MOST_WITH_RENEWALS,
        "{} commands",
        others.len()
    );
}

#[test]
fn a_section_of_threads_that_follow_each_other_costs_a_hand_over_and_a_look() {
    const WAITERS: usize = 10;
    let server = RedisServer::start();
    let guard = RedisSandboxExecutionGuard::builder(server.url())
        .max_hand_overs(100)
        .max_hand_over_time(PATIENCE)
        .build()
        .unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let monitor = thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
                // So long that the next in line begins to look.
                thread::sleep(Duration::from_millis(100));
                lease.close();
            });
        }
        thread::sleep(Duration::from_millis(100));
        let monitor = Monitor::start(&server);
        lease.close();
        monitor
    });
    let commands = monitor.stop();
    // The last lease is released, and what begins while somebody is slow may come twice.
    assert!(commands.len() <= 2 * WAITERS + 3, "{commands:#?}");
}
