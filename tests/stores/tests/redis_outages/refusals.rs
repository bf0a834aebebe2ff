//! A server that answers with errors: those that pass are waited out, those that stay return at once, and
//! none of them reads as held or as free.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_redis::{CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::{RedisServer, Setup};

use crate::{SLACK, assert_transient, builder, key};

const TROUBLE: Duration = Duration::from_secs(1);

/// What the server says for a while: its beginning and its end.
struct Refusal {
    begin: fn(&RedisServer) -> Option<thread::JoinHandle<()>>,
    end: fn(&RedisServer),
}

const FULL: Refusal = Refusal {
    begin: |server| {
        assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
        None
    },
    end: |server| assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK"),
};

const BUSY: Refusal = Refusal {
    begin: |server| {
        server.cli(&["CONFIG", "SET", "busy-reply-threshold", "5"]);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let script = thread::spawn(move || {
            let endless = redis::cmd("EVAL")
                .arg("while true do end")
                .arg(0)
                .to_owned();
            assert!(endless.exec(&mut connection).is_err(), "it is killed");
        });
        eventually("the server is busy", || {
            server.cli(&["GET", "x"]).contains("BUSY")
        });
        Some(script)
    },
    end: |server| assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK"),
};

const READ_ONLY: Refusal = Refusal {
    // A replica of nobody that can be reached. It keeps its memory, as a demoted master does at first.
    begin: |server| {
        assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
        None
    },
    end: |server| assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK"),
};

const NO_REPLICAS: Refusal = Refusal {
    begin: |server| {
        assert_eq!(
            server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]),
            "OK"
        );
        None
    },
    end: |server| {
        assert_eq!(
            server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]),
            "OK"
        )
    },
};

fn guards(server: &RedisServer) -> [RedisSandboxExecutionGuard; 2] {
    [false, true].map(|fencing| {
        builder(&server.url())
            .key_prefix(format!("fencing-{fencing}"))
            .fencing(fencing)
            .build()
            .unwrap()
    })
}

/// Entries wait a refusal out, on free slots and on held ones; leases survive it; closes are made good.
fn waited_out(refusal: &Refusal) {
    let server = RedisServer::start();
    for guard in guards(&server) {
        let (kept, closed) = (
            guard.try_enter(&key("k")).unwrap(),
            guard.try_enter(&key("c")).unwrap(),
        );
        let script = (refusal.begin)(&server);
        assert_transient(guard.try_enter_now(&key("free")));
        match guard.try_enter_now(&key("k")) {
            Ok(None) => {}
            outcome => assert_transient(outcome),
        }
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("free"), PATIENCE))
        };
        match kept.renew() {
            Ok(()) => {}
            outcome => assert_transient(outcome),
        }
        let outcome = closed.close();
        assert!(
            matches!(outcome, CloseOutcome::Released | CloseOutcome::Deferred),
            "{outcome:?}"
        );
        thread::sleep(TROUBLE);
        assert!(!waiting.is_over());
        (refusal.end)(&server);
        script.map(thread::JoinHandle::join);
        assert!(waiting.result().unwrap().is_held());
        assert!(kept.is_held());
        kept.renew().unwrap();
        assert_eq!(kept.close(), CloseOutcome::Released);
        for slot in ["k", "c", "free"] {
            eventually("the slot is free", || {
                guard.holder(&key(slot)).unwrap().is_none()
            });
        }
    }
}

#[test]
fn a_server_without_memory_is_waited_out() {
    waited_out(&FULL);
}

#[test]
fn a_busy_server_is_waited_out() {
    waited_out(&BUSY);
}

#[test]
fn a_server_that_is_read_only_for_a_while_is_waited_out() {
    waited_out(&READ_ONLY);
}

#[test]
fn a_server_that_misses_its_replicas_is_waited_out() {
    waited_out(&NO_REPLICAS);
}

#[test]
fn a_full_server_still_renews_and_releases() {
    let server = RedisServer::start();
    for guard in guards(&server) {
        let lease = guard.try_enter(&key("a")).unwrap();
        lease.renew().unwrap();
        (FULL.begin)(&server);
        lease.renew().unwrap();
        assert_eq!(lease.close(), CloseOutcome::Released);
        (FULL.end)(&server);
    }
}

#[test]
fn a_server_that_is_loading_is_waited_out() {
    let server = RedisServer::start_with(Setup {
        arguments: [
            "--enable-debug-command",
            "yes",
            "--loading-process-events-interval-bytes",
            "1024",
        ]
        .map(str::to_owned)
        .into(),
        ..Setup::default()
    });
    let guard = builder(&server.url()).build().unwrap();
    let kept = guard.try_enter(&key("k")).unwrap();
    server.cli(&["DEBUG", "POPULATE", "2000", "filler", "100"]);
    // Half a millisecond a key.
    assert_eq!(
        server.cli(&["CONFIG", "SET", "key-load-delay", "500"]),
        "OK"
    );
    thread::scope(|scope| {
        let reload = scope.spawn(|| server.cli(&["DEBUG", "RELOAD"]));
        eventually("the server loads", || {
            server.cli(&["GET", "x"]).contains("LOADING")
        });
        assert_transient(guard.try_enter_now(&key("a")));
        let entered = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        assert!(entered.is_held());
        assert_eq!(reload.join().unwrap(), "OK");
        kept.renew().unwrap();
    });
}

/// The slot carries something that is no token.
#[test]
fn data_of_another_kind_is_an_error_at_once_and_stays() {
    let server = RedisServer::start();
    for guard in guards(&server) {
        let slot = guard.slot(&key("a"));
        let lease = guard.try_enter(&key("a")).unwrap();
        server.cli(&["DEL", slot.as_str()]);
        server.cli(&["RPUSH", slot.as_str(), "data"]);
        let before = Instant::now();
        match guard.try_enter(&key("a")).map(drop) {
            Err(GuardError::Store {
                transient: false, ..
            }) => {}
            outcome => panic!("{outcome:?}"),
        }
        assert!(guard.holder(&key("a")).is_err());
        assert!(matches!(lease.renew(), Err(GuardError::NotHeld { .. })));
        assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
        assert!(before.elapsed() < SLACK);
        assert_eq!(server.cli(&["LRANGE", slot.as_str(), "0", "-1"]), "data");
        server.cli(&["DEL", slot.as_str()]);
    }
}

/// The counter's name carries something that is no number. No slot may be left taken by nobody.
#[test]
fn a_counter_of_another_kind_takes_no_slot() {
    let server = RedisServer::start();
    let [_, guard] = guards(&server);
    let (slot, counter) = (guard.slot(&key("a")), guard.fencing_counter(&key("a")));
    let lease = guard.try_enter(&key("a")).unwrap();
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter_for(&key("a"), Duration::from_secs(1)))
    };
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("DEL")
        .arg(&counter)
        .exec(&mut connection)
        .unwrap();
    redis::cmd("RPUSH")
        .arg(&counter)
        .arg("data")
        .exec(&mut connection)
        .unwrap();
    lease.close();
    match waiting.result().map(drop) {
        Err(GuardError::Store {
            transient: false, ..
        }) => {}
        outcome => panic!("{outcome:?}"),
    }
    match guard.try_enter_for(&key("a"), SLACK).map(drop) {
        Err(GuardError::Store {
            transient: false, ..
        }) => {}
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(
        server.cli(&["EXISTS", slot.as_str()]),
        "0",
        "nobody holds the slot"
    );
}
