//! What becomes of waiters when something of the wake-ups is lost. None sleeps through a release, and
//! later ones are woken at once again.

use std::thread;
use std::time::Duration;

use guard_conformance::{Waiting, eventually};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{
    ONCE_NOTICED, SOON, Wait, assert_wakes, enters_within, free, guard, hold, key, until_watched,
    wait,
};

/// One of the two connections of the wake-ups.
#[derive(Clone, Copy)]
enum Line {
    /// The one on which keys are read.
    Tracked,
    /// The one to which changes are told.
    Invalidation,
}

/// The server's number of the connection; `None` while there is none.
fn find(server: &RedisServer, line: Line) -> Option<String> {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let field = |client: &str, name: &str| {
        let mut fields = client.split(' ').filter_map(|field| field.split_once('='));
        fields.find_map(|(found, value)| (found == name).then(|| value.to_owned()))
    };
    let mut found = clients.lines().filter(|client| match line {
        Line::Tracked => field(client, "flags").is_some_and(|flags| flags.contains('t')),
        Line::Invalidation => field(client, "sub").is_some_and(|sub| sub == "1"),
    });
    found.next().and_then(|client| field(client, "id"))
}

/// Ends the connection at the server, and answers its number.
fn kill(server: &RedisServer, line: Line) -> String {
    let id = find(server, line).expect("the connection is there");
    assert_eq!(server.cli(&["CLIENT", "KILL", "ID", &id]), "1");
    id
}

/// A waiter on a slot that is held, and watched.
fn watched_wait(server: &RedisServer, guard: &RedisSandboxExecutionGuard) -> Wait {
    hold(server, guard, &key("a"));
    let waiting = wait(guard, &key("a"));
    until_watched(server, 1);
    waiting
}

fn a_release_right_after_a_loss_is_noticed(line: Line) {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    kill(&server, line);
    free(&server, &guard, &key("a"));
    enters_within(ONCE_NOTICED, waiting).close();
    assert_wakes(&server, &guard);
}

fn the_watch_is_rebuilt_after_a_loss(line: Line) {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    let id = kill(&server, line);
    eventually("the connection is replaced", || {
        find(&server, line).is_some_and(|new| new != id)
    });
    // The waiter has looked on the new connection, without anything having happened to its slot.
    until_watched(&server, 1);
    free(&server, &guard, &key("a"));
    enters_within(SOON, waiting).close();
}

#[test]
fn a_release_right_after_the_tracked_connection_is_lost_is_noticed() {
    a_release_right_after_a_loss_is_noticed(Line::Tracked);
}

#[test]
fn a_release_right_after_the_invalidation_connection_is_lost_is_noticed() {
    a_release_right_after_a_loss_is_noticed(Line::Invalidation);
}

#[test]
fn the_watch_is_rebuilt_when_the_tracked_connection_is_lost() {
    the_watch_is_rebuilt_after_a_loss(Line::Tracked);
}

#[test]
fn the_watch_is_rebuilt_when_the_invalidation_connection_is_lost() {
    the_watch_is_rebuilt_after_a_loss(Line::Invalidation);
}

#[test]
fn all_connections_may_be_lost_at_once() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    free(&server, &guard, &key("a"));
    enters_within(ONCE_NOTICED, waiting).close();
    assert_wakes(&server, &guard);
}

#[test]
fn a_release_together_with_a_loss_that_cannot_be_mended_is_noticed() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    let id = find(&server, Line::Invalidation).expect("the connection is there");
    let client = redis::Client::open(server.url()).unwrap();
    let mut foreign = client.get_connection().unwrap();
    // Connections that are open stay good; new ones are not let in.
    let mut all = redis::pipe();
    all.atomic()
        .cmd("CONFIG")
        .arg(&["SET", "requirepass", "secret"]);
    all.cmd("CLIENT").arg(&["KILL", "ID", &id]);
    all.del(guard.slot(&key("a")).as_str());
    let (_, killed, deleted): (String, u32, u32) = all.query(&mut foreign).unwrap();
    assert_eq!((killed, deleted), (1, 1));
    enters_within(ONCE_NOTICED, waiting).close();
}

#[test]
fn wakeups_come_back_to_a_server_that_let_nobody_in_for_a_moment() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    let id = find(&server, Line::Invalidation).expect("the connection is there");
    let client = redis::Client::open(server.url()).unwrap();
    let mut foreign = client.get_connection().unwrap();
    let mut ask = |command: &str, arguments: &[&str]| {
        let _: redis::Value = redis::cmd(command)
            .arg(arguments)
            .query(&mut foreign)
            .unwrap();
    };
    ask("CONFIG", &["SET", "maxclients", "1"]);
    ask("CLIENT", &["KILL", "ID", &id]);
    thread::sleep(Duration::from_millis(500));
    ask("CONFIG", &["SET", "maxclients", "1000"]);
    free(&server, &guard, &key("a"));
    enters_within(ONCE_NOTICED, waiting).close();
    assert_wakes(&server, &guard);
}

#[test]
fn losses_again_and_again_let_nobody_sleep() {
    let server = RedisServer::start();
    let (here, there) = (guard(&server), guard(&server));
    let mut lease = here.try_enter(&key("a")).unwrap();
    for round in 0..8 {
        let waiting = wait(if round % 2 == 0 { &there } else { &here }, &key("a"));
        eventually("somebody watches", || {
            find(&server, Line::Tracked).is_some()
        });
        let line = if round % 4 < 2 {
            Line::Tracked
        } else {
            Line::Invalidation
        };
        // Both guards have such a connection after the first rounds: either one's loss will do.
        kill(&server, line);
        lease.close();
        lease = enters_within(ONCE_NOTICED, waiting);
    }
}

#[test]
fn a_release_while_the_server_is_stopped_is_noticed() {
    let server = RedisServer::start();
    let guard = guard(&server);
    for stop in [Duration::from_millis(200), Duration::from_secs(6)] {
        let waiting = watched_wait(&server, &guard);
        server.stop_process();
        // The second time both connections are given up meanwhile: a stopped server is silent.
        let released = {
            let url = server.url();
            let slot = guard.slot(&key("a")).to_string();
            Waiting::start(move || {
                let client = redis::Client::open(url).unwrap();
                let mut connection = client.get_connection().unwrap();
                let deleted: u32 = redis::Cmd::del(slot).query(&mut connection).unwrap();
                assert_eq!(deleted, 1);
            })
        };
        thread::sleep(stop);
        server.cont_process();
        released.result();
        enters_within(ONCE_NOTICED, waiting).close();
    }
    assert_wakes(&server, &guard);
}

#[test]
fn scripts_flushed_while_somebody_waits_do_no_harm() {
    let server = RedisServer::start();
    let guard = guard(&server);
    let waiting = watched_wait(&server, &guard);
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    free(&server, &guard, &key("a"));
    enters_within(SOON, waiting).close();
    assert_wakes(&server, &guard);
}

#[test]
fn a_restart_while_many_wait_lets_all_of_them_in() {
    let mut server = RedisServer::start();
    let guard = guard(&server);
    let keys = ["a", "b", "c"].map(key);
    for key in &keys {
        hold(&server, &guard, key);
    }
    let waiting: Vec<_> = keys
        .iter()
        .flat_map(|key| [(); 3].map(|()| wait(&guard, key)))
        .collect();
    until_watched(&server, 3);
    // Its memory goes with it, so that all slots are free.
    server.restart();
    // Those of one slot are in the order in which they queue.
    for waiting in waiting {
        enters_within(ONCE_NOTICED, waiting).close();
    }
    assert_wakes(&server, &guard);
}
