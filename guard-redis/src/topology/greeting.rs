//! The first words to a server: whether it is one that keeps leases, and what of its state will harm.

use guard_core::{Budget, ConfigError, StoreError};

use crate::connection::exchange::Exchange;
use crate::connection::open_connection::OpenConnection;
use crate::connection::route::Route;
use crate::protocol::answer::{Pong, Role};
use crate::protocol::failure::Failure;

/// The one eviction policy under which the server does not drop leases when its memory is full.
const SAFE_POLICY: &str = "noeviction";

/// Opens a connection and makes sure that a Redis server answers on it.
pub(crate) fn greet(
    route: &dyn Route,
    min_replicas: u32,
    budget: Budget,
) -> Result<OpenConnection, StoreError> {
    let mut connection = route.dial(budget)?;
    let mut exchange = Exchange::on(&mut connection, budget);
    exchange
        .call::<Pong>(&redis::cmd("PING"))
        .map_err(|failure| failure.into_store_error("greeting"))?;
    // Whether it tells or not.
    let _ = warn_of_state(&mut exchange, min_replicas);
    Ok(connection)
}

/// Makes sure that a server which was named directly keeps leases, and keeps all of them. One that does not tell is
/// taken for such a one.
pub(crate) fn stands_alone(
    connection: &mut OpenConnection,
    budget: Budget,
) -> Result<(), ConfigError> {
    let mut exchange = Exchange::on(connection, budget);
    let refuse = |reason: String| Err(ConfigError::setting("address", reason));
    match exchange.role() {
        Ok(Role::Replica(master)) => {
            return refuse(format!(
                "the server is a replica, of {master}: name its master, or let sentinels name it (`sentinel`, with \
                 feature `sentinel`)"
            ));
        }
        Ok(Role::Sentinel) => {
            let reason = "the server is a sentinel: use `sentinel`, with feature `sentinel`";
            return refuse(reason.to_owned());
        }
        Ok(Role::Untold) => log::warn!(
            target: guard_core::LOG_TARGET,
            "the Redis server does not tell its role (`ROLE`): should it become a replica, its word is believed"
        ),
        Ok(Role::Master) | Err(_) => {}
    }
    let in_cluster = ask_for(&mut exchange, "cluster", "cluster_enabled:");
    if matches!(in_cluster, Ok(Some(enabled)) if enabled == "1") {
        let reason = "the server is a node of a cluster, and has some of the slots only: use `cluster`, with feature \
                      `cluster`";
        return refuse(reason.to_owned());
    }
    Ok(())
}

/// Says what of the server's state will harm or hinder. A server that does not tell is taken for a good one.
pub(crate) fn warn_of_state(exchange: &mut Exchange<'_>, wanted: u32) -> Result<(), Failure> {
    let policy = ask_for(exchange, "memory", "maxmemory_policy:")?;
    if let Some(policy) = policy.filter(|policy| policy != SAFE_POLICY) {
        log::warn!(
            target: guard_core::LOG_TARGET,
            "the Redis server's maxmemory-policy is {policy:?}: it may evict leases; set it to {SAFE_POLICY:?}"
        );
    }
    if wanted == 0 {
        return Ok(());
    }
    let connected = ask_for(exchange, "replication", "connected_slaves:")?;
    let connected = connected.and_then(|it| it.parse::<u32>().ok());
    if let Some(connected) = connected.filter(|connected| *connected < wanted) {
        log::warn!(
            target: guard_core::LOG_TARGET,
            "`min_replicas` is {wanted}, but the Redis server has {connected} connected replicas: nobody enters \
             while they are fewer"
        );
    }
    Ok(())
}

/// One line of the server's `INFO`.
fn ask_for(
    exchange: &mut Exchange<'_>,
    section: &str,
    name: &str,
) -> Result<Option<String>, Failure> {
    let info: String = exchange.call(redis::cmd("INFO").arg(section))?;
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.map(str::to_owned))
}
