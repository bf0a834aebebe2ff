//! Commands and answers on one connection, within one operation's budget.

use std::time::{Duration, Instant};

use guard_core::Budget;
use redis::{Cmd, RedisError, Value, cmd};

use crate::connection::open_connection::{Mastery, OpenConnection};
use crate::protocol::answer::{Answer, Pong, Role};
use crate::protocol::error::out_of_time;
use crate::protocol::failure::{Failure, failure, unexpected};
use crate::protocol::script::{Script, is_unknown};

/// The least time for reading an answer that is due.
const SHORTEST_READ: Duration = Duration::from_millis(1);

/// How long a master's word that it is one counts where a free slot is taken. What is asked of a busy connection need not
/// be accompanied by that question each time.
pub(crate) const FRESH: Duration = Duration::from_millis(5);

/// What was sent, and so which answers are due, in this order.
struct Due {
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
pub(crate) struct Exchange<'a> {
    pub(crate) connection: &'a mut OpenConnection,
    pub(crate) budget: Budget,
    /// Whether an earlier try of the same operation went unanswered, and may have been executed.
    pub(crate) repeated: bool,
    /// Whether the server is only about to get the keys (a cluster's `ASK`), and has to be told before each
    /// command that we know.
    pub(crate) asking: bool,
    /// Whether the server tells of changes of what is read here.
    pub(crate) tracked: bool,
    /// Whether the last answer came together with the server's word that it is a master.
    proven: bool,
}

impl<'a> Exchange<'a> {
    pub(crate) const fn on(connection: &'a mut OpenConnection, budget: Budget) -> Self {
        Self {
            connection,
            budget,
            repeated: false,
            asking: false,
            tracked: false,
            proven: false,
        }
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

    /// Runs a script that says something of a lease; loads it first if the server does not know it.
    pub(crate) fn run<T: Answer>(
        &mut self,
        script: &Script,
        keys: &[&str],
        arguments: &[&[u8]],
    ) -> Result<T, Failure> {
        let mut answers = self.run_all(script, &[&script.call(keys, arguments)])?;
        answers.pop().unwrap_or_else(|| Err(unexpected()))
    }

    /// The same for several [calls](Script::call), which are all sent before the first answer is read.
    pub(crate) fn run_all<T: Answer>(
        &mut self,
        script: &Script,
        calls: &[&Cmd],
    ) -> Result<Vec<Result<T, Failure>>, Failure> {
        let answers = self.ask_all(calls)?;
        if !answers.iter().any(|it| it.as_ref().is_err_and(is_unknown)) {
            return Ok(answers);
        }
        self.call::<Vec<u8>>(&script.load())?;
        self.ask_all(calls)
    }

    /// Like [`call`](Self::call) for what is said of a lease, which counts only from a master. One that is a replica by
    /// now may be behind, or be given up with what it grants. So the server is asked for its role by the same write,
    /// unless it has just told.
    pub(crate) fn ask<T: Answer>(&mut self, command: &Cmd) -> Result<T, Failure> {
        let mut answers = self.ask_all(&[command])?;
        answers.pop().unwrap_or_else(|| Err(unexpected()))
    }

    /// The same for several commands, which are all sent before the first answer is read. The server's refusals stand in
    /// the answers.
    fn ask_all<T: Answer>(
        &mut self,
        commands: &[&Cmd],
    ) -> Result<Vec<Result<T, Failure>>, Failure> {
        self.proven = false;
        let heard = self.converse(commands, self.connection.mastery)?;
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
        if self.proven || matches!(self.connection.mastery, Mastery::Untold) {
            return Ok(());
        }
        let heard = self.converse(&[], Mastery::Unknown)?;
        let (asked, role) = heard.role.ok_or_else(unexpected)?;
        self.judge(asked, role)
    }

    /// Has the server asked for its role by the next write, unless it has told for less than `age`.
    pub(crate) fn doubt_role(&mut self, age: Duration) {
        if let Mastery::Seen(at) = self.connection.mastery
            && at.elapsed() > age
        {
            self.connection.mastery = Mastery::Unknown;
        }
    }

    /// Whether the server still answers, and as a master.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.connection.mastery {
            Mastery::Untold => self.call::<Pong>(&cmd("PING")).map(drop),
            Mastery::Unknown | Mastery::Seen(_) => self.confirm(),
        }
    }

    /// Asks the server what it is.
    pub(crate) fn role(&mut self) -> Result<Role, Failure> {
        let heard = self.converse(&[], Mastery::Unknown)?;
        let (asked, role) = heard.role.ok_or_else(unexpected)?;
        self.learn(asked, role)
    }

    /// Remembers what the server says that it is.
    fn learn(
        &mut self,
        asked: Instant,
        answer: Result<Value, RedisError>,
    ) -> Result<Role, Failure> {
        let role = Role::read(answer).ok_or_else(unexpected)?;
        self.connection.mastery = match role {
            Role::Master => Mastery::Seen(asked),
            Role::Untold => Mastery::Untold,
            Role::Replica(_) | Role::Sentinel => Mastery::Unknown,
        };
        Ok(role)
    }

    /// Makes sure that what came with this answer is a master's word.
    fn judge(&mut self, asked: Instant, answer: Result<Value, RedisError>) -> Result<(), Failure> {
        match self.learn(asked, answer)? {
            Role::Master | Role::Untold => {
                self.proven = true;
                Ok(())
            }
            Role::Replica(_) | Role::Sentinel => Err(Failure::Demoted),
        }
    }

    /// Sends commands and reads all their answers, so that none is left for the next one to read.
    fn converse(&mut self, commands: &[&Cmd], mastery: Mastery) -> Result<Heard, Failure> {
        let due = self.transmit(commands, mastery)?;
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
            asking: self.asking,
            commands: commands.len(),
            role: mastery.is_to_be_asked(now).then_some(now),
        };
        let mut bytes = Vec::new();
        for command in commands {
            if due.asking {
                cmd("ASKING").write_packed_command(&mut bytes);
            }
            command.write_packed_command(&mut bytes);
        }
        if due.role.is_some() {
            cmd("ROLE").write_packed_command(&mut bytes);
        }
        self.connection
            .wire
            .send(&bytes, self.budget)
            .map_err(failure)?;
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
        self.connection.wire.receive(budget).map_err(failure)
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
