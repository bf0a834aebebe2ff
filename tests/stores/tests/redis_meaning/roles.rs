//! Servers that may not answer: replicas, by whatever way one gets there, and what keeps some of the slots only.

use guard_conformance::eventually;
use guard_redis::{CloseOutcome, ConfigError, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::{Cluster, Sentinels};
use guard_store_tests::{everything_said, replicas};

use crate::{assert_fails, builder, key, start};

/// Makes a server the replica of an empty one, whose connections stay.
fn demote(server: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the server has become a replica", || {
        server
            .cli(&["INFO", "replication"])
            .contains("master_link_status:up")
    });
}

fn servers(read_only: &str) -> [RedisServer; 2] {
    let fast = ["--repl-diskless-sync-delay", "0"];
    let more = ["--replica-read-only", read_only];
    [(); 2].map(|()| start(&[fast, more].concat()))
}

#[test]
fn a_replica_behind_a_direct_address_is_not_believed_that_a_token_is_not_there() {
    for read_only in ["yes", "no"] {
        for fencing in [false, true] {
            let [server, master] = servers(read_only);
            let guard = builder(&server.url()).fencing(fencing).build().unwrap();
            let [renewed, closed] =
                ["renewed", "closed"].map(|it| guard.try_enter(&key(it)).unwrap());
            demote(&server, &master);
            let error = renewed.renew().expect_err("a replica says so");
            assert!(error.is_transient(), "{error:?}");
            assert!(renewed.is_held());
            assert_eq!(closed.close(), CloseOutcome::Deferred);
        }
    }
}

#[test]
fn nobody_enters_at_a_replica_that_can_be_written_to() {
    for fencing in [false, true] {
        for held in [false, true] {
            let [server, master] = servers("no");
            let guard = builder(&server.url()).fencing(fencing).build().unwrap();
            let lease = guard.try_enter(&key("a")).unwrap();
            lease.close();
            demote(&server, &master);
            let slot = guard.slot(&key("a"));
            if held {
                // So it is at the master, perhaps; who has it there, nobody can tell here.
                assert_eq!(server.cli(&["SET", slot.as_str(), "foreign"]), "OK");
            }
            assert_fails(guard.try_enter_now(&key("a")), true, "a replica");
            // Nor is a new connection any better.
            let guard = builder(&master.url()).fencing(fencing).build().unwrap();
            drop(guard.try_enter(&key("a")).unwrap());
        }
    }
}

#[test]
fn a_lease_is_not_renewed_at_a_replica_that_can_be_written_to() {
    let [server, master] = servers("no");
    let guard = builder(&server.url()).build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    demote(&server, &master);
    let slot = guard.slot(&key("a"));
    assert_eq!(
        server.cli(&["SET", slot.as_str(), lease.token().as_str()]),
        "OK"
    );
    assert!(lease.renew().expect_err("a replica").is_transient());
}

#[test]
fn acknowledgement_that_a_replica_cannot_wait_for_passes() {
    let (server, _replicas) = replicas::start(1);
    assert_eq!(
        server.cli(&["CONFIG", "SET", "replica-read-only", "no"]),
        "OK"
    );
    let [master, _] = servers("no");
    let guard = builder(&server.url()).min_replicas(1).build().unwrap();
    guard.try_enter(&key("a")).unwrap().close();
    demote(&server, &master);
    assert_fails(guard.try_enter_now(&key("a")), true, "a replica");
}

#[track_caller]
fn assert_refused<T>(built: Result<T, ConfigError>, words: [&str; 2]) {
    let Err(error) = built else {
        panic!("{words:?}: it was built");
    };
    assert!(!error.is_transient(), "{error:?}");
    let said = everything_said(&error);
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn a_builder_says_what_to_use_instead_of_a_replica_a_sentinel_or_a_node_of_a_cluster() {
    let [server, master] = servers("yes");
    demote(&server, &master);
    assert_refused(builder(&server.url()).build(), ["replica", "`sentinel`"]);
    let manager = builder(&server.url()).connection_manager().unwrap();
    let pool = r2d2::Pool::builder().build(manager).unwrap();
    let given = guard_redis::RedisSandboxExecutionGuard::from_pool(pool);
    assert_refused(given.build(), ["replica", "`sentinel`"]);
    let sentinels = Sentinels::start();
    for sentinel in sentinels.sentinels() {
        assert_refused(
            builder(&sentinel.url()).build(),
            ["a sentinel", "`sentinel`"],
        );
    }
    let cluster = Cluster::start();
    for node in &cluster.nodes()[..3] {
        assert_refused(builder(&node.url()).build(), ["cluster", "`cluster`"]);
    }
}

/// Without the rights to ask, a guard goes on as if it were right.
#[test]
fn a_guard_that_may_not_ask_for_roles_goes_on() {
    let server = RedisServer::start();
    let rights = ["on", ">secret", "~*", "&*", "+@all", "-role", "-info"];
    let user = [&["ACL", "SETUSER", "limited", "reset"][..], &rights].concat();
    assert_eq!(server.cli(&user), "OK");
    let url = server.url().replace("redis://", "redis://limited:secret@");
    let guard = builder(&url).build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    lease.renew().unwrap();
    let slot = guard.slot(&key("a"));
    assert_eq!(server.cli(&["DEL", slot.as_str()]), "1");
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    guard.try_enter(&key("a")).unwrap().close();
}
