//! Listening to what a server publishes, over connections that come and go.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use guard_core::{Budget, LOG_TARGET, StoreError};
use redis::{Msg, RedisResult, Value, cmd};

use crate::error::is_not_allowed;
use crate::failure::{Failure, failure};
use crate::session::Session;
use crate::wire::{Connection, OwnWire, Wire};
use crate::worker::Stop;

/// How long a thread reads before it looks whether it should end.
const SLICE: Duration = Duration::from_millis(100);
/// How often the connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A connection that takes longer to answer a check is given up, or the operation timeout if that is less.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses between attempts to connect grow from this …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The pause after a refusal, which an administrator may have ended meanwhile.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// Why nobody listens any more.
pub(crate) enum End {
    Stopped,
    /// The server does not let us.
    Refused(StoreError),
    Failed(StoreError),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        let refused = matches!(&failure, Failure::Answer(error) if is_not_allowed(error));
        let error = failure.into_store_error("listening");
        if refused {
            Self::Refused(error)
        } else {
            Self::Failed(error)
        }
    }
}

/// Whom the messages are for.
pub(crate) trait Audience {
    fn hear(&self, message: &Msg);

    /// Whether it still makes sense to listen on this connection. Asked after each slice.
    fn is_well(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checks what belongs to the connection, which has just answered itself.
    fn check(&self, _: Budget) -> Result<(), Failure> {
        Ok(())
    }
}

/// Listens again and again, until the thread is asked to end. `refused` hears why the server does not let us. `news`
/// says of what, for the log.
pub(crate) fn persist(
    stop: &Stop,
    news: &str,
    mut listen: impl FnMut() -> End,
    refused: impl Fn(&str),
) {
    let mut pause = FIRST_PAUSE;
    while !stop.is_asked() {
        let start = Instant::now();
        match listen() {
            End::Stopped => return,
            End::Refused(error) => {
                refused(&chain(&error));
                stop.sleep(PAUSE_AFTER_REFUSAL);
                continue;
            }
            End::Failed(error) => {
                log::debug!(target: LOG_TARGET, "{news} failed, connecting again: {}", chain(&error));
            }
        }
        // What stood for a while was good: its successor is tried without delay.
        pause = if start.elapsed() > LONGEST_PAUSE {
            FIRST_PAUSE
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
        stop.sleep(pause);
    }
}

/// By a command of ours: the client library's own `subscribe` takes a refusal for a success.
pub(crate) fn subscribe(
    connection: &mut Connection,
    channel: &str,
    budget: Budget,
) -> Result<(), Failure> {
    let mut session = Session::new(connection, budget);
    session
        .call::<Value>(cmd("SUBSCRIBE").arg(channel))
        .map(drop)
}

/// Passes messages on until something ends it, and makes sure now and then that all still answers.
pub(crate) fn read(
    connection: &mut Connection,
    stop: &Stop,
    audience: &impl Audience,
    operation_timeout: Duration,
) -> End {
    match connection {
        Connection::Own(wire) => {
            let mut messages = OwnMessages {
                wire,
                waiting: VecDeque::new(),
            };
            read_on(&mut messages, stop, audience, operation_timeout)
        }
        #[cfg(feature = "tls-rustls")]
        Connection::Clients(connection) => {
            let mut pubsub = connection.as_pubsub();
            let end = read_on(&mut pubsub, stop, audience, operation_timeout);
            // The end of the subscription would wait for an answer that nobody needs.
            let _ = pubsub.set_read_timeout(Some(Duration::from_millis(1)));
            end
        }
    }
}

/// What comes on a connection that listens.
trait Messages {
    /// The next message; an error that is a timeout says that there was none.
    fn next(&mut self, patience: Duration) -> RedisResult<Msg>;

    /// Makes sure that the server answers.
    fn ping(&mut self, patience: Duration) -> RedisResult<()>;
}

struct OwnMessages<'a> {
    wire: &'a mut OwnWire,
    /// What came before the answer to a PING.
    waiting: VecDeque<Msg>,
}

impl Messages for OwnMessages<'_> {
    fn next(&mut self, patience: Duration) -> RedisResult<Msg> {
        let budget = Budget::new(patience);
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            let value = self.wire.receive(budget)?;
            self.waiting.extend(Msg::from_owned_value(value));
        }
    }

    fn ping(&mut self, patience: Duration) -> RedisResult<()> {
        let budget = Budget::new(patience);
        self.wire.send(&cmd("PING").get_packed_command(), budget)?;
        loop {
            // A refusal is an answer, too: whoever may not ping is told so by a server that is there.
            match Msg::from_owned_value(self.wire.receive(budget)?) {
                Some(message) => self.waiting.push_back(message),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(feature = "tls-rustls")]
impl Messages for redis::PubSub<'_> {
    fn next(&mut self, patience: Duration) -> RedisResult<Msg> {
        self.set_read_timeout(Some(patience))?;
        self.get_message()
    }

    fn ping(&mut self, patience: Duration) -> RedisResult<()> {
        self.set_read_timeout(Some(patience))?;
        redis::PubSub::ping::<Value>(self).map(drop)
    }
}

fn read_on(
    messages: &mut impl Messages,
    stop: &Stop,
    audience: &impl Audience,
    operation_timeout: Duration,
) -> End {
    let patience = CHECK_TIMEOUT.min(operation_timeout);
    let mut checked = Instant::now();
    loop {
        if stop.is_asked() {
            return End::Stopped;
        }
        if let Err(error) = audience.is_well() {
            return End::Failed(error);
        }
        match messages.next(SLICE) {
            Ok(message) => audience.hear(&message),
            Err(error) if error.is_timeout() => {}
            Err(error) => return failure(error).into(),
        }
        if checked.elapsed() >= CHECK_INTERVAL {
            let answered = messages.ping(patience).map_err(failure);
            if let Err(failure) = answered.and_then(|()| audience.check(Budget::new(patience))) {
                return failure.into();
            }
            checked = Instant::now();
        }
    }
}

/// An error with its causes, for one log line.
fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
