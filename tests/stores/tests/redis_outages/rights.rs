//! Users who lack one right each.

use std::time::{Duration, Instant};

use guard_redis::{CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, builder, key};

const RIGHTS: [&str; 16] = [
    "set",
    "evalsha",
    "script|load",
    "get",
    "pttl",
    "del",
    "pexpire",
    "time",
    "client|info",
    "client|kill",
    "client|tracking",
    "subscribe",
    "ping",
    "info",
    "client",
    "eval",
];

/// A guard whose user loses a right after it was built.
fn guard_without(server: &RedisServer, right: &str, fencing: bool) -> RedisSandboxExecutionGuard {
    let user = [
        "ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all",
    ];
    assert_eq!(server.cli(&user), "OK");
    let url = server.url().replace("redis://", "redis://limited:secret@");
    let builder = builder(&url)
        .fencing(fencing)
        .key_prefix(format!("without-{right}-{fencing}"));
    let guard = builder.lease_ttl(Duration::from_secs(600)).build().unwrap();
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(
        server.cli(&["ACL", "SETUSER", "limited", &format!("-{right}")]),
        "OK"
    );
    guard
}

#[track_caller]
fn assert_permanent<T>(outcome: Result<T, GuardError>, right: &str) {
    match outcome.map(drop) {
        Err(error @ GuardError::Store { .. }) if !error.is_transient() => {}
        outcome => panic!("without {right}: {outcome:?}"),
    }
}

#[test]
fn a_missing_right_reads_neither_as_held_nor_as_free_and_is_told_at_once() {
    let server = RedisServer::start();
    for right in RIGHTS {
        for fencing in [false, true] {
            let guard = guard_without(&server, right, fencing);
            let (free, held) = (guard.slot(&key("free")), guard.slot(&key("held")));
            server.cli(&["SET", held.as_str(), "foreign"]);
            let before = Instant::now();

            match guard.try_enter_for(&key("free"), SLACK) {
                Ok(lease) => {
                    assert_eq!(server.cli(&["GET", free.as_str()]), lease.token().as_str());
                    if let Err(error) = lease.renew() {
                        assert_permanent(Err::<(), _>(error), right);
                    }
                    assert!(lease.is_held(), "without {right}");
                    let outcome = lease.close();
                    let freed = server.cli(&["EXISTS", free.as_str()]) == "0";
                    assert_eq!(
                        freed,
                        outcome == CloseOutcome::Released,
                        "without {right}: {outcome:?}"
                    );
                    assert!(
                        freed || outcome == CloseOutcome::Deferred,
                        "without {right}: {outcome:?}"
                    );
                }
                Err(error) => {
                    assert_permanent(Err::<(), _>(error), right);
                    let holder = server.cli(&["GET", free.as_str()]);
                    assert_eq!(
                        holder, "",
                        "without {right}, fencing {fencing}: a slot held by nobody"
                    );
                }
            }
            match guard.try_enter_now(&key("held")) {
                Ok(None) => {}
                outcome => assert_permanent(outcome, right),
            }
            match guard.holder(&key("held")) {
                Ok(Some(_)) => {}
                outcome => assert_permanent(outcome, right),
            }
            assert_eq!(
                server.cli(&["GET", held.as_str()]),
                "foreign",
                "without {right}"
            );
            let took = before.elapsed();
            assert!(took < SLACK, "without {right}: {took:?}");
        }
    }
}

#[test]
fn a_right_that_was_missing_for_a_while_leaves_nothing_behind() {
    let server = RedisServer::start();
    for right in RIGHTS {
        for fencing in [false, true] {
            let guard = guard_without(&server, right, fencing);
            let slot = guard.slot(&key("a"));
            let lease = guard.try_enter_for(&key("a"), SLACK);
            drop(lease);
            assert_eq!(server.cli(&["ACL", "SETUSER", "limited", "+@all"]), "OK");
            let mut waits = 0;
            while server.cli(&["EXISTS", slot.as_str()]) == "1" {
                waits += 1;
                assert!(
                    waits < 1_000,
                    "without {right}, fencing {fencing}: {slot:?} is still held"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
