//! A master with replicas.

use crate::eventually;
use crate::redis_server::{RedisServer, Setup};

/// Starts a master and so many replicas that follow it.
#[must_use]
pub fn start(replicas: usize) -> (RedisServer, Vec<RedisServer>) {
    let master = RedisServer::start_with(Setup {
        arguments: ["--repl-diskless-sync-delay", "0"]
            .map(str::to_owned)
            .into(),
        ..Setup::default()
    });
    let port = master.port().to_string();
    let replica = || {
        RedisServer::start_with(Setup {
            arguments: ["--replicaof", "127.0.0.1", &port]
                .map(str::to_owned)
                .into(),
            ..Setup::default()
        })
    };
    let replicas: Vec<_> = (0..replicas).map(|_| replica()).collect();
    in_sync(&master, replicas.len());
    (master, replicas)
}

/// Waits until so many replicas have all that the master has.
pub fn in_sync(master: &RedisServer, replicas: usize) {
    eventually("the replicas are in sync", || {
        let have = master.cli(&["WAIT", &replicas.to_string(), "100"]);
        have.parse::<usize>().is_ok_and(|have| have >= replicas)
    });
}
