//! Commands on one connection, within one operation's budget.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use guard_core::{Budget, LeaseToken, StoreError};
use redis::{Cmd, RedisError, Value, cmd};

use crate::answer::{Answer, Pong, Role};
use crate::error::out_of_time;
use crate::failure::{Failure, failure, unexpected};
use crate::live::Live;
use crate::unanswered::Identity;
use crate::wire::Wire;

/// The least time for reading an answer that is due.
const SHORTEST_READ: Duration = Duration::from_millis(1);

/// How long a master's word that it is one counts, from before it was asked, …
const RECENT: Duration = Duration::from_secs(3);
/// … and where a free slot is taken. What is asked of a busy connection need not be accompanied by that question each
/// time.
pub(crate) const FRESH: Duration = Duration::from_millis(5);

/// Tells the answers to our `PING`s on users' connections from all others.
static NONCE: AtomicU64 = AtomicU64::new(0);

/// One operation of the store, over however many tries.
pub(crate) struct Operation<'a> {
    pub(crate) name: &'static str,
    pub(crate) budget: Budget,
    /// The token that it may put into a slot.
    pub(crate) brings: Option<&'a LeaseToken>,
    /// Whether a try of it went unanswered: it may have been executed, or may yet be.
    pub(crate) unanswered: bool,
    /// Whether the next try goes to the node of a cluster that is only about to get the slot.
    pub(crate) asking: bool,
}

impl<'a> Operation<'a> {
    pub(crate) const fn new(
        name: &'static str,
        budget: Budget,
        brings: Option<&'a LeaseToken>,
    ) -> Self {
        Self {
            name,
            budget,
            brings,
            unanswered: false,
            asking: false,
        }
    }

    /// What the guard is told when the last try failed.
    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        let error = failure.into_store_error(self.name);
        if self.unanswered {
            // The last try may have a definite answer, the one before has none.
            error.with_unknown_outcome()
        } else {
            error
        }
    }
}

/// What is known of a connection's server: whether it is a master.
#[derive(Clone, Copy, Default)]
pub(crate) enum Mastery {
    #[default]
    Unknown,
    /// It was one at this moment or later.
    Seen(Instant),
    /// It does not tell us, and is taken for one.
    Untold,
}

impl Mastery {
    fn is_to_be_asked(self, now: Instant) -> bool {
        match self {
            Self::Unknown => true,
            Self::Seen(at) => now.saturating_duration_since(at) > RECENT,
            Self::Untold => false,
        }
    }
}

/// What was sent, and so which answers are due, in this order.
struct Due {
    /// The answer to a `PING` that goes before all others.
    nonce: Option<String>,
    /// Whether each command comes behind an `ASKING`.
    asking: bool,
    commands: usize,
    /// When the server was asked for its role, behind all others.
    role: Option<Instant>,
}

/// The answers to commands that were sent together.
struct Heard {
    answers: Vec<Result<Value, RedisError>>,
    role: Option<(Instant, Result<Value, RedisError>)>,
}

/// A connection, lent for one operation.
pub(crate) struct Session<'a> {
    wire: &'a mut dyn Wire,
    pub(crate) budget: Budget,
    /// By what the server knows the connection, if it tells.
    pub(crate) identity: Option<Identity>,
    /// Whether an earlier try of the same operation went unanswered, and may have been executed.
    pub(crate) repeated: bool,
    /// Whether the server is only about to get the keys (a cluster's `ASK`), and has to be told before each
    /// command that we know.
    pub(crate) asking: bool,
    /// Whether the server tells of changes of what is read here.
    pub(crate) tracked: bool,
    /// Whether the connection is also the user's, who may have left anything in it: each exchange then begins with a
    /// `PING` of ours, whose answer must come first.
    pub(crate) shared: bool,
    /// What is known of the server's role …
    mastery: Mastery,
    /// … where that is remembered.
    remembered: Option<&'a mut Mastery>,
    /// Whether the last answer came together with the server's word that it is a master.
    proven: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(wire: &'a mut dyn Wire, budget: Budget) -> Self {
        Self {
            wire,
            budget,
            identity: None,
            repeated: false,
            asking: false,
            tracked: false,
            shared: false,
            mastery: Mastery::Unknown,
            remembered: None,
            proven: false,
        }
    }

    /// A session on a connection of ours.
    pub(crate) fn of(live: &'a mut Live, budget: Budget) -> Self {
        let mut session = Self::new(&mut live.connection, budget);
        session.identity.clone_from(&live.known.identity);
        session.mastery = live.mastery;
        session.remembered = Some(&mut live.mastery);
        session
    }

    /// What scripts are told that read a slot again where that registers for its next change.
    pub(crate) const fn reads_again(&self) -> &'static str {
        if self.tracked { "1" } else { "0" }
    }

    /// Sends a command and reads its answer within what is left of the budget.
    pub(crate) fn call<T: Answer>(&mut self, command: &Cmd) -> Result<T, Failure> {
        let heard = self.converse(&[command], Mastery::Untold)?;
        let mut answers = heard.answers.into_iter();
        answers.next().map_or_else(|| Err(unexpected()), read)
    }

    /// Like [`call`](Self::call) for what is said of a lease, which counts only from a master. One that is a replica by now may be behind,
    /// or be given up with what it grants. So the server is asked for its role by the same write, unless it has just told.
    pub(crate) fn ask<T: Answer>(&mut self, command: &Cmd) -> Result<T, Failure> {
        let mut answers = self.ask_all(&[command])?.into_iter();
        answers.next().unwrap_or_else(|| Err(unexpected()))
    }

    /// The same for several commands, which are all sent before the first answer is read. The server's refusals stand in
    /// the answers.
    pub(crate) fn ask_all<T: Answer>(
        &mut self,
        commands: &[&Cmd],
    ) -> Result<Vec<Result<T, Failure>>, Failure> {
        self.proven = false;
        let heard = self.converse(commands, self.mastery)?;
        let answers = read_all(heard.answers)?;
        // A refusal says itself what to do.
        if let Some((asked, role)) = heard.role
            && answers.iter().any(Result::is_ok)
        {
            self.judge(asked, role)?;
        }
        Ok(answers)
    }

    /// Whether the server has ended the connection, or does not answer any more.
    pub(crate) fn is_hung_up(&mut self) -> bool {
        matches!(
            self.call::<Value>(&cmd("PING")),
            Err(Failure::Connection(_))
        )
    }

    /// Makes sure that what the server has just said of a token is a master's word: a replica that was the
    /// master when the connection was opened may know less.
    pub(crate) fn confirm(&mut self) -> Result<(), Failure> {
        if self.proven || matches!(self.mastery, Mastery::Untold) {
            return Ok(());
        }
        let heard = self.converse(&[], Mastery::Unknown)?;
        let (asked, role) = heard.role.ok_or_else(unexpected)?;
        self.judge(asked, role)
    }

    /// Has the server asked for its role by the next write, unless it has told for less than `age`.
    pub(crate) fn doubt_role(&mut self, age: Duration) {
        if let Mastery::Seen(at) = self.mastery
            && at.elapsed() > age
        {
            self.mastery = Mastery::Unknown;
        }
    }

    /// Whether the server still answers, and as a master.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.mastery {
            Mastery::Untold => self.call::<Pong>(&cmd("PING")).map(drop),
            Mastery::Unknown | Mastery::Seen(_) => self.confirm(),
        }
    }

    /// Asks the server what it is.
    pub(crate) fn role(&mut self) -> Result<Role, Failure> {
        let heard = self.converse(&[], Mastery::Unknown)?;
        let role = heard.role.and_then(|(_, role)| Role::read(role));
        role.ok_or_else(unexpected)
    }

    fn judge(&mut self, asked: Instant, role: Result<Value, RedisError>) -> Result<(), Failure> {
        let mastery = match Role::read(role) {
            Some(Role::Master) => Mastery::Seen(asked),
            Some(Role::Untold) => Mastery::Untold,
            Some(Role::Replica(_) | Role::Sentinel) => return Err(Failure::Demoted),
            None => return Err(unexpected()),
        };
        self.proven = true;
        self.mastery = mastery;
        if let Some(remembered) = &mut self.remembered {
            **remembered = mastery;
        }
        Ok(())
    }

    /// Sends commands and reads all their answers, so that none is left for the next one to read.
    fn converse(&mut self, commands: &[&Cmd], mastery: Mastery) -> Result<Heard, Failure> {
        let due = self.transmit(commands, mastery)?;
        if let Some(nonce) = &due.nonce {
            let first = self.receive()?;
            if !matches!(&first, Value::BulkString(text) if text == nonce.as_bytes()) {
                return Err(unexpected());
            }
        }
        let mut answers = Vec::with_capacity(due.commands);
        let mut refusal = None;
        for _ in 0..due.commands {
            let allowed = if due.asking {
                self.receive_after(&mut refusal)?
            } else {
                Ok(Value::Okay)
            };
            let answer = self.receive_after(&mut refusal)?;
            answers.push(allowed.and(answer));
        }
        let role = match due.role {
            Some(asked) => Some((asked, self.receive_after(&mut refusal)?)),
            None => None,
        };
        Ok(Heard { answers, role })
    }

    /// Sends commands in one write, with what has to accompany them.
    fn transmit(&mut self, commands: &[&Cmd], mastery: Mastery) -> Result<Due, Failure> {
        if self.budget.remaining().is_zero() {
            return Err(Failure::NotSent(out_of_time("sending")));
        }
        let now = Instant::now();
        let due = Due {
            nonce: self.shared.then(|| {
                let number = NONCE.fetch_add(1, Ordering::Relaxed);
                format!("sandbox-guard-{number}")
            }),
            asking: self.asking,
            commands: commands.len(),
            role: mastery.is_to_be_asked(now).then_some(now),
        };
        let mut bytes = Vec::new();
        if let Some(nonce) = &due.nonce {
            cmd("PING").arg(nonce).write_packed_command(&mut bytes);
        }
        for command in commands {
            if due.asking {
                cmd("ASKING").write_packed_command(&mut bytes);
            }
            command.write_packed_command(&mut bytes);
        }
        if due.role.is_some() {
            cmd("ROLE").write_packed_command(&mut bytes);
        }
        self.wire.send(&bytes, self.budget).map_err(failure)?;
        Ok(due)
    }

    /// Reads an answer. If the server has hung up instead, what it refused before says why.
    fn receive_after(
        &mut self,
        refusal: &mut Option<RedisError>,
    ) -> Result<Result<Value, RedisError>, Failure> {
        match self.receive() {
            Ok(value) => {
                let answer = value.extract_error();
                if let (None, Err(error)) = (&refusal, &answer) {
                    *refusal = Some(error.clone());
                }
                Ok(answer)
            }
            Err(Failure::Connection(error)) if error.is_connection_dropped() => {
                Err(failure(refusal.take().unwrap_or(error)))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Reads the answer to a command that was sent before.
    fn receive(&mut self) -> Result<Value, Failure> {
        // It is most likely there already, so even a budget that is spent allows a short look.
        let budget = if self.budget.remaining() < SHORTEST_READ {
            Budget::new(SHORTEST_READ)
        } else {
            self.budget
        };
        self.wire.receive(budget).map_err(failure)
    }
}

/// Reads an answer to the letter.
fn read<T: Answer>(answer: Result<Value, RedisError>) -> Result<T, Failure> {
    T::read(answer.map_err(failure)?).ok_or_else(unexpected)
}

fn read_all<T: Answer>(
    answers: Vec<Result<Value, RedisError>>,
) -> Result<Vec<Result<T, Failure>>, Failure> {
    let read = |answer| match read(answer) {
        Err(failure @ Failure::Connection(_)) => Err(failure),
        answer => Ok(answer),
    };
    answers.into_iter().map(read).collect()
}
