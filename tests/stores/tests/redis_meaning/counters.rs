//! Fencing counters that somebody else has written, or that cannot grow any more.

use std::thread;

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{assert_fails, builder, key};

/// What no number follows.
const JUNK: [&str; 17] = [
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551616",
    "99999999999999999999999999",
    "-1",
    "1.5",
    " 7",
    "7 ",
    "0x10",
    "1e3",
    "1e300",
    "inf",
    "nan",
    "",
    "junk",
    "12\n",
];

fn guard(server: &RedisServer) -> RedisSandboxExecutionGuard {
    builder(&server.url()).fencing(true).build().unwrap()
}

/// A counter's name has a NUL in it, which no argument of a program can have.
struct Counter(redis::Connection, String);

impl Counter {
    fn of(server: &RedisServer, guard: &RedisSandboxExecutionGuard, value: &str) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_connection().unwrap();
        Self(connection, guard.fencing_counter(&key(value)))
    }

    fn call<T: redis::FromRedisValue>(&mut self, name: &str, arguments: &[&str]) -> T {
        let mut command = redis::cmd(name);
        command.arg(&self.1);
        for argument in arguments {
            command.arg(argument);
        }
        command.query(&mut self.0).unwrap()
    }

    fn set(&mut self, value: &str) {
        self.call::<()>("SET", &[value]);
    }

    #[track_caller]
    fn assert_untouched(&mut self, value: &str) {
        assert_eq!(self.call::<String>("GET", &[]), value);
        assert_eq!(self.call::<i64>("PTTL", &[]), -1, "{value:?}");
    }
}

#[test]
fn a_counter_that_cannot_grow_lets_nobody_in_and_stays_as_it_is() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let mut counter = Counter::of(&server, &guard, "a");
    let slot = guard.slot(&key("a"));
    for junk in JUNK {
        counter.set(junk);
        assert_fails(guard.try_enter_now(&key("a")), false, junk);
        counter.assert_untouched(junk);
        assert_eq!(server.cli(&["EXISTS", slot.as_str()]), "0", "{junk:?}");
    }
    counter.call::<i64>("DEL", &[]);
    counter.call::<i64>("RPUSH", &["7"]);
    assert_fails(guard.try_enter_now(&key("a")), false, "a list");
    assert_eq!(counter.call::<Vec<String>>("LRANGE", &["0", "-1"]), ["7"]);
    assert_eq!(counter.call::<i64>("PTTL", &[]), -1);
    assert_eq!(server.cli(&["EXISTS", slot.as_str()]), "0");
}

#[test]
fn numbers_grow_up_to_the_last_that_is_exact() {
    const LAST: u64 = 1 << 53;
    let server = RedisServer::start();
    let guard = guard(&server);
    let mut counter = Counter::of(&server, &guard, "a");
    counter.set(&(LAST - 3).to_string());
    for number in [LAST - 2, LAST - 1, LAST] {
        let lease = guard.try_enter(&key("a")).unwrap();
        assert_eq!(lease.fencing_token().unwrap().get(), number);
    }
    assert_fails(guard.try_enter_now(&key("a")), false, "the last was given");
    assert_eq!(counter.call::<String>("GET", &[]), LAST.to_string());
    for (number, least) in [("0", 1), ("0007", 8), ("1733000000000001", 1)] {
        counter.set(number);
        let lease = guard.try_enter(&key("a")).unwrap();
        assert!(lease.fencing_token().unwrap().get() >= least, "{number}");
    }
}

#[test]
fn a_hand_over_and_a_renewal_leave_it_as_it_is() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let mut counter = Counter::of(&server, &guard, "a");
    for junk in ["9007199254740992", "junk", "1e3"] {
        counter.call::<i64>("DEL", &[]);
        let lease = guard.try_enter(&key("a")).unwrap();
        counter.set(junk);
        lease.renew().unwrap();
        assert!(lease.is_held());
        if junk != "9007199254740992" {
            counter.assert_untouched(junk);
        }
        counter.set(junk);
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE))
        };
        thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(lease.close(), CloseOutcome::Released);
        assert_fails(waiting.result(), false, junk);
        counter.assert_untouched(junk);
        let slot = guard.slot(&key("a"));
        eventually("the slot is free", || {
            server.cli(&["EXISTS", slot.as_str()]) == "0"
        });
    }
}
