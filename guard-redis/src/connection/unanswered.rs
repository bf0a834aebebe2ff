//! Commands that got no answer: they may be executed long after their client gave up.
//!
//! A server that was stopped, or a network that held bytes back, can execute a command of a connection that
//! its client closed long ago. Only the server can end such a connection for good. So each connection learns
//! by which number and address the server knows it, and the store remembers, for each token, the connections
//! on which a command that may put the token into a slot went unanswered. It knows of such a command from before it
//! is sent, since a release must not be final while another thread still waits for the answer.
//!
//! The server may not be the master any more when the slot is freed. A command that is still under way to it
//! could take effect if it became the master again; so its connection is ended there, not on the new master.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use guard_core::{Budget, LeaseToken};
use parking_lot::{Condvar, Mutex};

use crate::connection::dial::{current_run, dial, share};
use crate::connection::exchange::Exchange;
use crate::connection::identity::Identity;
use crate::protocol::error::is_not_allowed;
use crate::protocol::failure::Failure;

/// What part of a release's time may be spent on a server that is not the slot's any more, or waiting for commands of
/// other threads.
const PARTS: usize = 4;

/// A connection on which a command went unanswered.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    number: u64,
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
    /// How many tokens `commands` has: spares a release its lock while nothing is under way. Changed under it.
    tokens: AtomicUsize,
    /// Protects which commands may still bring which token. Nothing is asked of a server with it held.
    commands: Mutex<Commands>,
    /// Told when a command is not under way any more.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Commands {
    last: u64,
    /// Those that some thread waits for: as many as there are connections in use, at most.
    under_way: Vec<(u64, LeaseToken)>,
    suspects: HashMap<LeaseToken, Vec<Suspect>>,
}

impl Commands {
    fn is_under_way(&self, token: &LeaseToken) -> bool {
        self.under_way.iter().any(|(_, other)| other == token)
    }
}

impl Unanswered {
    pub(crate) fn new(may_kill: bool, ghost_window: Duration) -> Self {
        Self {
            may_kill,
            ghost_window,
            tokens: AtomicUsize::new(0),
            commands: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Does work on a connection that may put the token `brings` into a slot. What it came to says whether something
    /// of it may still take effect.
    pub(crate) fn during<T>(
        self: &Arc<Self>,
        brings: Option<&LeaseToken>,
        exchange: &mut Exchange<'_>,
        work: impl FnOnce(&mut Exchange<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let under_way =
            brings.map(|token| self.begin(token, exchange.connection.identity.as_ref()));
        let result = work(exchange);
        if let Some(under_way) = under_way {
            under_way.end(&result);
        }
        result
    }

    /// Notes that a command which may bring `token` is about to be sent.
    pub(crate) fn begin(
        self: &Arc<Self>,
        token: &LeaseToken,
        identity: Option<&Identity>,
    ) -> UnderWay {
        let mut commands = self.commands.lock();
        commands.last += 1;
        let number = commands.last;
        commands.under_way.push((number, token.clone()));
        self.count(&commands);
        UnderWay {
            unanswered: Arc::clone(self),
            number,
            identity: identity.cloned(),
            answered: false,
        }
    }

    /// The connections that may still bring `token`, after commands of it that other threads have under way had a part
    /// of the time to be answered.
    pub(crate) fn of(&self, token: &LeaseToken, budget: Budget) -> Vec<Suspect> {
        if self.tokens.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut commands = self.commands.lock();
        if commands.is_under_way(token) {
            let patience = share(budget, PARTS).deadline();
            let still = |commands: &mut Commands| commands.is_under_way(token);
            self.changed
                .wait_while_until(&mut commands, still, patience);
        }
        commands.suspects.get(token).cloned().unwrap_or_default()
    }

    /// Whether a thread waits for the answer to a command that may bring `token`.
    pub(crate) fn is_under_way(&self, token: &LeaseToken) -> bool {
        self.tokens.load(Ordering::SeqCst) > 0 && self.commands.lock().is_under_way(token)
    }

    /// Whether a command of `token` went unanswered.
    pub(crate) fn has(&self, token: &LeaseToken) -> bool {
        self.tokens.load(Ordering::SeqCst) > 0 && self.commands.lock().suspects.contains_key(token)
    }

    /// Notes that nothing of `settled` is under way any more; answers whether this was all that is known of `token`.
    pub(crate) fn forget(&self, token: &LeaseToken, settled: &[Suspect]) -> bool {
        if self.tokens.load(Ordering::SeqCst) == 0 {
            return true;
        }
        let mut commands = self.commands.lock();
        if let Some(suspects) = commands.suspects.get_mut(token) {
            suspects.retain(|suspect| settled.iter().all(|other| other.number != suspect.number));
            if suspects.is_empty() {
                commands.suspects.remove(token);
            }
        }
        self.count(&commands);
        !commands.is_under_way(token) && !commands.suspects.contains_key(token)
    }

    fn count(&self, commands: &Commands) {
        let tokens = commands.under_way.len() + commands.suspects.len();
        self.tokens.store(tokens, Ordering::SeqCst);
    }

    /// Makes sure that nothing of `suspects` is executed after this; answers whether that is sure. To be
    /// called before the slot is freed, on another connection to the slot's server.
    pub(crate) fn settle(
        &self,
        suspects: &[Suspect],
        exchange: &mut Exchange<'_>,
    ) -> Result<bool, Failure> {
        let mut settled = true;
        for suspect in suspects {
            let over = suspect.since.elapsed() >= self.ghost_window;
            settled &= over || self.end(suspect, exchange)?;
        }
        Ok(settled)
    }

    /// Ends a connection at the server; answers whether it is gone for sure.
    fn end(&self, suspect: &Suspect, exchange: &mut Exchange<'_>) -> Result<bool, Failure> {
        let Some(identity) = suspect.identity.as_ref().filter(|_| self.may_kill) else {
            return Ok(false);
        };
        match &exchange.connection.identity {
            Some(here) if here.server().addr() != identity.server().addr() => {
                Ok(end_elsewhere(identity, exchange.budget))
            }
            _ => kill(identity, exchange),
        }
    }
}

/// A command that may bring a token, until it is answered. One that never is, whatever the reason, is a suspect.
pub(crate) struct UnderWay {
    unanswered: Arc<Unanswered>,
    number: u64,
    identity: Option<Identity>,
    answered: bool,
}

impl UnderWay {
    /// Notes what it came to.
    pub(crate) fn end<T>(mut self, result: &Result<T, Failure>) {
        self.answered = !matches!(result, Err(Failure::Connection(_)));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let unanswered = &*self.unanswered;
        let mut commands = unanswered.commands.lock();
        let mut under_way = commands.under_way.iter();
        let Some(index) = under_way.position(|(number, _)| *number == self.number) else {
            return;
        };
        let (number, token) = commands.under_way.swap_remove(index);
        if !self.answered {
            let suspect = Suspect {
                number,
                identity: self.identity.take(),
                since: Instant::now(),
            };
            commands.suspects.entry(token).or_default().push(suspect);
        }
        unanswered.count(&commands);
        unanswered.changed.notify_all();
    }
}

/// Ends a connection on the server that `exchange` leads to; answers whether it is gone for sure.
fn kill(identity: &Identity, exchange: &mut Exchange<'_>) -> Result<bool, Failure> {
    let run = current_run(exchange)?;
    match identity.is_of(run.as_ref()) {
        Some(true) => {}
        Some(false) => return Ok(true),
        None => return Ok(false),
    }
    match exchange.call::<u64>(&identity.kill()) {
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
    dial(identity.server(), part).is_ok_and(|mut connection| {
        let mut exchange = Exchange::on(&mut connection, part);
        kill(identity, &mut exchange).unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use guard_core::OwnerLabel;

    use super::*;

    #[test]
    fn a_release_forgets_only_what_it_has_settled() {
        let unanswered = Arc::new(Unanswered::new(true, Duration::from_secs(60)));
        let token = LeaseToken::generate(&OwnerLabel::default());
        let budget = Budget::new(Duration::from_secs(1));
        drop(unanswered.begin(&token, None));
        let settled = unanswered.of(&token, budget);
        assert_eq!(settled.len(), 1);
        // While the release runs another command times out.
        drop(unanswered.begin(&token, None));
        assert!(!unanswered.forget(&token, &settled));
        assert!(unanswered.has(&token));
        let rest = unanswered.of(&token, budget);
        assert_eq!(rest.len(), 1);
        assert!(unanswered.forget(&token, &rest));
        assert!(!unanswered.has(&token));
        unanswered.begin(&token, None).end(&Ok(()));
        assert!(unanswered.of(&token, budget).is_empty());
    }
}
