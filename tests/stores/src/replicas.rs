//! A master with replicas.

use crate::redis_server::{RedisServer, Setup};
use guard_conformance::eventually;

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

/// Waits until so many replicas have all that the master has. One that the master calls online may still be
/// loading; what it has, it says.
pub fn in_sync(master: &RedisServer, replicas: usize) {
    master.cli(&["PUBLISH", "nobody", "something to pass on"]);
    let offset = |line: &str, name: &str| {
        let (_, value) = line.split_once(name)?;
        value.split(',').next()?.trim().parse::<u64>().ok()
    };
    let all = master.cli(&["INFO", "replication"]);
    let all = all
        .lines()
        .find_map(|line| offset(line, "master_repl_offset:"));
    let all = all.expect("a master tells its offset");
    eventually("the replicas are in sync", || {
        let info = master.cli(&["INFO", "replication"]);
        let have = info.lines().filter_map(|line| offset(line, ",offset="));
        have.filter(|have| *have >= all).count() >= replicas
    });
}
