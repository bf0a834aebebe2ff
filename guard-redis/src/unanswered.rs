//! Commands that got no answer: they may be executed long after their client gave up.
//!
//! A server that was stopped, or a network that held bytes back, can execute a command of a connection that
//! its client closed long ago. Only the server can end such a connection for good. So each connection learns
//! by which number and address the server knows it, and the store remembers, for each token, the connections
//! on which a command that may put the token into a slot went unanswered.
//!
//! The server may not be the master any more when the slot is freed. A command that is still under way to it
//! could take effect if it became the master again; so its connection is ended there, not on the new master.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use guard_core::{Budget, LeaseToken};
use parking_lot::Mutex;
use redis::cmd;

use crate::dial::{dial, share};
use crate::endpoint::Endpoint;
use crate::error::{is_not_allowed, may_be_a_farewell};
use crate::session::{Failure, Session};

/// By what the server knows a connection. Both together name it for ever: after a restart the number may
/// belong to a stranger, who has another address.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    server: Arc<Endpoint>,
    id: String,
    address: String,
}

impl Identity {
    /// Asks the server; `None` if it does not tell.
    pub(crate) fn ask(
        session: &mut Session<'_>,
        server: &Arc<Endpoint>,
    ) -> Result<Option<Self>, Failure> {
        match session.call::<String>(cmd("CLIENT").arg("INFO")) {
            Ok(info) => Ok(Self::parse(&info, server)),
            // A server that has too many clients says so in answer to whatever it is asked first, and hangs up.
            Err(Failure::Answer(error)) if is_not_allowed(&error) => {
                if may_be_a_farewell(&error) && session.is_hung_up() {
                    Err(Failure::Answer(error))
                } else {
                    Ok(None)
                }
            }
            Err(failure) => Err(failure),
        }
    }

    fn parse(info: &str, server: &Arc<Endpoint>) -> Option<Self> {
        // The address of a Unix socket is its path, which may contain spaces; what follows is known.
        let (id, rest) = info.strip_prefix("id=")?.split_once(" addr=")?;
        let (address, _) = rest.split_once(" laddr=")?;
        Some(Self {
            server: Arc::clone(server),
            id: id.to_owned(),
            address: address.to_owned(),
        })
    }

    /// The server that the connection leads to.
    pub(crate) const fn server(&self) -> &Arc<Endpoint> {
        &self.server
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// What part of a release's time may be spent on a server that is not the slot's any more.
const PARTS: usize = 4;

/// A connection on which a command went unanswered.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    identity: Option<Identity>,
    since: Instant,
}

/// The unanswered commands of a store.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// Whether the connections may be ended.
    may_kill: bool,
    /// How long a command can stay under way, where its connection cannot be ended.
    ghost_window: Duration,
    /// The size of `by_token`: spares the healthy path its lock. Changed under it.
    tokens: AtomicUsize,
    /// Protects which connections may still bring which token.
    by_token: Mutex<HashMap<LeaseToken, Vec<Suspect>>>,
}

impl Unanswered {
    pub(crate) fn new(may_kill: bool, ghost_window: Duration) -> Self {
        Self {
            may_kill,
            ghost_window,
            tokens: AtomicUsize::new(0),
            by_token: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, token: &LeaseToken, identity: Option<Identity>) {
        let since = Instant::now();
        let mut by_token = self.by_token.lock();
        by_token
            .entry(token.clone())
            .or_default()
            .push(Suspect { identity, since });
        self.tokens.store(by_token.len(), Ordering::Release);
    }

    /// The connections that may still bring `token`.
    pub(crate) fn of(&self, token: &LeaseToken) -> Vec<Suspect> {
        if self.tokens.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.by_token.lock().get(token).cloned().unwrap_or_default()
    }

    /// Notes that nothing of `token` is under way any more.
    pub(crate) fn forget(&self, token: &LeaseToken) {
        if self.tokens.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut by_token = self.by_token.lock();
        by_token.remove(token);
        self.tokens.store(by_token.len(), Ordering::Release);
    }

    /// Makes sure that nothing of `suspects` is executed after this; answers whether that is sure. To be
    /// called before the slot is freed, on another connection to the slot's server.
    pub(crate) fn settle(
        &self,
        suspects: &[Suspect],
        session: &mut Session<'_>,
    ) -> Result<bool, Failure> {
        let mut settled = true;
        for suspect in suspects {
            let over = suspect.since.elapsed() >= self.ghost_window;
            settled &= over || self.end(suspect, session)?;
        }
        Ok(settled)
    }

    /// Ends a connection at the server; answers whether it is gone for sure.
    fn end(&self, suspect: &Suspect, session: &mut Session<'_>) -> Result<bool, Failure> {
        let Some(identity) = suspect.identity.as_ref().filter(|_| self.may_kill) else {
            return Ok(false);
        };
        match &session.server {
            Some(server) if server.addr() != identity.server.addr() => {
                Ok(end_elsewhere(identity, session.budget))
            }
            _ => kill(identity, session),
        }
    }
}

/// Ends a connection on the server that `session` leads to; answers whether it is gone for sure.
fn kill(identity: &Identity, session: &mut Session<'_>) -> Result<bool, Failure> {
    let mut kill = cmd("CLIENT");
    kill.arg("KILL")
        .arg("ID")
        .arg(&identity.id)
        .arg("ADDR")
        .arg(&identity.address);
    match session.call::<i64>(&kill) {
        // One: ended just now. Zero: it was gone already.
        Ok(_) => Ok(true),
        Err(Failure::Answer(error)) if is_not_allowed(&error) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Ends a connection on a server that is not the slot's any more, in a part of the budget; answers whether it
/// is gone for sure. A server that cannot be reached may live all the same, even if the connection is refused: so
/// does a firewall that came between, or the address of a service whose server is not ready.
fn end_elsewhere(identity: &Identity, budget: Budget) -> bool {
    let part = share(budget, PARTS);
    dial(&identity.server, part).is_ok_and(|mut live| {
        let mut session = Session::of(&mut live, part);
        kill(identity, &mut session).unwrap_or(false)
    })
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
        let identity = Identity::parse(info, &server).unwrap();
        assert_eq!(
            (identity.id.as_str(), identity.address.as_str()),
            ("17", "127.0.0.1:5000")
        );
        let info = "id=8 addr=/tmp/a b/redis.sock:0 laddr=/tmp/a b/redis.sock:0 fd=8\n";
        let identity = Identity::parse(info, &server).unwrap();
        assert_eq!(identity.address, "/tmp/a b/redis.sock:0");
        assert!(Identity::parse("addr=127.0.0.1:5000", &server).is_none());
    }
}
