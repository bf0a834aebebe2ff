//! By what a server knows a connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, cmd};

use crate::connection::endpoint::Endpoint;

/// By what a server knows a connection.
#[derive(Clone, Debug)]
pub(crate) struct Identity(Arc<Names>);

#[derive(Debug)]
struct Names {
    server: Arc<Endpoint>,
    id: String,
    address: String,
    /// The run of the server that gave the number. Another run gives it again, to a stranger.
    run: Option<String>,
    /// When the server told.
    told: Instant,
}

impl Identity {
    /// The question after it.
    pub(crate) fn question() -> Cmd {
        cmd("CLIENT").arg("INFO").to_owned()
    }

    /// Reads the answer; `None` if it does not tell.
    pub(crate) fn parse(info: &str, server: &Arc<Endpoint>, run: Option<Run>) -> Option<Self> {
        // The address of a Unix socket is its path, which may contain spaces; what follows is known.
        let (id, rest) = info.strip_prefix("id=")?.split_once(" addr=")?;
        let (address, _) = rest.split_once(" laddr=")?;
        Some(Self(Arc::new(Names {
            server: Arc::clone(server),
            id: id.to_owned(),
            address: address.to_owned(),
            run: run.map(|run| run.id),
            told: Instant::now(),
        })))
    }

    /// The server that the connection leads to.
    pub(crate) fn server(&self) -> &Arc<Endpoint> {
        &self.0.server
    }

    /// The server's number of the connection.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    /// Whether the connection can still be there, now that the server is in the run `now`; `None` if that cannot be
    /// told. Only in the run that gave its number does the number mean it: else a stranger's connection would be ended.
    pub(crate) fn is_of(&self, now: Option<&Run>) -> Option<bool> {
        let (run, now) = (self.0.run.as_ref()?, now?);
        if now.id == *run {
            return Some(true);
        }
        // The server has been restarted since, and so the connection has ended with all that came over it. One that
        // runs for longer than the connection is old is another server at the same address.
        (now.lasts < self.0.told.elapsed()).then_some(false)
    }

    /// The command that ends the connection.
    pub(crate) fn kill(&self) -> Cmd {
        let Names { id, address, .. } = &*self.0;
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(id).arg("ADDR").arg(address);
        kill
    }
}

/// One run of a server, from its start to its end.
pub(crate) struct Run {
    id: String,
    lasts: Duration,
}

impl Run {
    /// The question after it.
    pub(crate) fn question() -> Cmd {
        cmd("INFO").arg("server").to_owned()
    }

    /// Reads the answer; `None` if it does not tell.
    pub(crate) fn parse(info: &str) -> Option<Self> {
        let value = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let lasts = value("uptime_in_seconds:")?.trim().parse().ok()?;
        Some(Self {
            id: value("run_id:")?.trim().to_owned(),
            lasts: Duration::from_secs(lasts),
        })
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn the_identity_is_read_from_the_servers_description() {
        let info = "redis://127.0.0.1".into_connection_info().unwrap();
        let server = Arc::new(Endpoint::new(info));
        let info = "id=17 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name= user=default\n";
        let identity = Identity::parse(info, &server, None).unwrap();
        assert_eq!(
            (identity.id(), identity.0.address.as_str()),
            ("17", "127.0.0.1:5000")
        );
        let info = "id=8 addr=/tmp/a b/redis.sock:0 laddr=/tmp/a b/redis.sock:0 fd=8\n";
        let identity = Identity::parse(info, &server, None).unwrap();
        assert_eq!(identity.0.address, "/tmp/a b/redis.sock:0");
        assert!(Identity::parse("addr=127.0.0.1:5000", &server, None).is_none());
    }
}
