//! Connections that their other users left in the middle of something.

use guard_conformance::redis_server::RedisServer;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use r2d2::Pool;
use redis::{Client, Connection, cmd};

use crate::{OPERATION_TIMEOUT, builder, key};

/// Leaves something behind.
type Leave = fn(&mut Connection);

/// What a user may leave behind.
const LEFT: [(&str, Leave); 5] = [
    ("a transaction", |it| cmd("MULTI").exec(it).unwrap()),
    ("an answer", |it| {
        let set = cmd("SET").arg("users").arg("own").get_packed_command();
        it.send_packed_command(&set).unwrap();
    }),
    ("two answers", |it| {
        for _ in 0..2 {
            let incr = cmd("INCR").arg("number").get_packed_command();
            it.send_packed_command(&incr).unwrap();
        }
    }),
    ("an answer to PING", |it| {
        it.send_packed_command(&cmd("PING").get_packed_command())
            .unwrap();
    }),
    ("a subscription", |it| {
        let subscribe = cmd("SUBSCRIBE").arg("news").get_packed_command();
        it.send_packed_command(&subscribe).unwrap();
    }),
];

fn given_pool(server: &RedisServer, fencing: bool) -> (Pool<Client>, RedisSandboxExecutionGuard) {
    let client = Client::open(server.url()).unwrap();
    let pool = Pool::builder()
        .max_size(1)
        .test_on_check_out(false)
        .build(client.clone())
        .unwrap();
    let guard = RedisSandboxExecutionGuard::from_pool(client, pool.clone())
        .operation_timeout(OPERATION_TIMEOUT)
        .wakeups(Wakeups::Polling)
        .fencing(fencing)
        .build()
        .unwrap();
    (pool, guard)
}

#[test]
fn what_was_left_in_a_users_connection_is_never_taken_for_an_answer() {
    let server = RedisServer::start();
    let others = builder(&server.url()).build().unwrap();
    let slot = others.slot(&key("held"));
    let held = others.try_enter(&key("held")).unwrap();
    for (what, leave) in LEFT {
        for fencing in [false, true] {
            for known in [false, true] {
                let what = format!("{what}, fencing: {fencing}, known: {known}");
                let (pool, guard) = given_pool(&server, fencing);
                if known {
                    guard.try_enter(&key("before")).unwrap().close();
                }
                let leave = || leave(&mut pool.get().unwrap());
                leave();
                assert!(
                    guard.try_enter_now(&key("held")).unwrap().is_none(),
                    "{what}"
                );
                leave();
                let lease = guard.try_enter_now(&key("free")).unwrap().expect(&what);
                let free = guard.slot(&key("free"));
                assert_eq!(server.cli(&["GET", free.as_str()]), lease.token().as_str());
                leave();
                lease.renew().expect(&what);
                assert!(lease.is_held(), "{what}");
                leave();
                assert!(guard.holder(&key("free")).unwrap().is_some(), "{what}");
                leave();
                lease.close();
                assert_eq!(server.cli(&["EXISTS", free.as_str()]), "0", "{what}");
            }
        }
    }
    assert_eq!(server.cli(&["GET", slot.as_str()]), held.token().as_str());
}

#[test]
fn a_users_connection_to_another_database_is_not_used() {
    let server = RedisServer::start();
    let (pool, guard) = given_pool(&server, false);
    cmd("SELECT").arg(3).exec(&mut pool.get().unwrap()).unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let slot = guard.slot(&key("a"));
    assert_eq!(server.cli(&["GET", slot.as_str()]), lease.token().as_str());
    assert_eq!(server.cli(&["-n", "3", "EXISTS", slot.as_str()]), "0");
}
