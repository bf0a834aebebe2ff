//! Listening to what a server publishes, over connections that come and go.

use std::time::{Duration, Instant};

use guard_core::{Budget, LOG_TARGET, StoreError};
use redis::{Msg, RedisResult, Value, cmd};

use crate::connection::exchange::Exchange;
use crate::connection::open_connection::OpenConnection;
use crate::connection::wire::Wire;
use crate::protocol::error::is_not_allowed;
use crate::protocol::failure::{Failure, failure};
use crate::wakeups::worker::Stop;

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

/// Asks for the messages of a channel.
pub(crate) fn subscribe(
    connection: &mut OpenConnection,
    channel: &str,
    budget: Budget,
) -> Result<(), Failure> {
    let mut exchange = Exchange::on(connection, budget);
    exchange
        .call::<Value>(cmd("SUBSCRIBE").arg(channel))
        .map(drop)
}

/// Passes messages on until something ends it, and makes sure now and then that all still answers.
pub(crate) fn read(
    connection: &mut OpenConnection,
    stop: &Stop,
    audience: &impl Audience,
    operation_timeout: Duration,
) -> End {
    let patience = CHECK_TIMEOUT.min(operation_timeout);
    let wire = &mut connection.wire;
    let mut checked = Instant::now();
    loop {
        if stop.is_asked() {
            return End::Stopped;
        }
        if let Err(error) = audience.is_well() {
            return End::Failed(error);
        }
        match wire.receive(Budget::new(SLICE)) {
            Ok(value) => tell(audience, value),
            Err(error) if error.is_timeout() => {}
            Err(error) => return failure(error).into(),
        }
        if checked.elapsed() >= CHECK_INTERVAL {
            let budget = Budget::new(patience);
            let answered = ping(wire, audience, budget).map_err(failure);
            if let Err(failure) = answered.and_then(|()| audience.check(Budget::new(patience))) {
                return failure.into();
            }
            checked = Instant::now();
        }
    }
}

/// Makes sure that the server answers, and passes on what comes before its answer.
fn ping(wire: &mut Wire, audience: &impl Audience, budget: Budget) -> RedisResult<()> {
    wire.send(&cmd("PING").get_packed_command(), budget)?;
    // A refusal is an answer, too: whoever may not ping is told so by a server that is there.
    loop {
        match Msg::from_owned_value(wire.receive(budget)?) {
            Some(message) => audience.hear(&message),
            None => return Ok(()),
        }
    }
}

fn tell(audience: &impl Audience, value: Value) {
    if let Some(message) = Msg::from_owned_value(value) {
        audience.hear(&message);
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
