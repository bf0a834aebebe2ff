//! The thread that reads the invalidation connection, and keeps both connections of the wake-ups alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_core::{Budget, LOG_TARGET, SlotName, StoreError};
use redis::{Connection, Msg, PubSub, Value, cmd};

use crate::connector::Live;
use crate::dial::dial;
use crate::error::is_not_allowed;
use crate::session::{Failure, Session, failure};
use crate::unanswered::Identity;
use crate::wakeups::Line;

/// Where the server sends its messages.
const CHANNEL: &str = "__redis__:invalidate";
/// How long the thread reads before it looks whether it should end.
const SLICE: Duration = Duration::from_millis(100);
/// How often both connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A connection that takes longer to answer a check is given up, or the operation timeout if that is less.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses between attempts to connect grow from this …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why the thread does not listen any more.
enum End {
    Stopped,
    /// The server does not let us, and never will.
    Refused(StoreError),
    Failed(StoreError),
}

/// Listens until the line is stopped, or the server refuses.
pub(crate) fn work(line: &Arc<Line>) {
    let mut pause = FIRST_PAUSE;
    while !line.stopped() {
        let start = Instant::now();
        let end = listen(line);
        match end {
            End::Stopped => return line.down(),
            End::Refused(error) => {
                line.down();
                return line.switch_off(&chain(&error));
            }
            End::Failed(error) => {
                log::debug!(target: LOG_TARGET, "wake-ups failed, connecting again: {}", chain(&error));
                line.down();
            }
        }
        // A line that stood for a while was good: its successor is tried without delay.
        pause = if start.elapsed() > LONGEST_PAUSE {
            FIRST_PAUSE
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
        line.sleep(pause);
    }
}

/// Connects and listens until something ends it.
fn listen(line: &Arc<Line>) -> End {
    let budget = Budget::new(line.operation_timeout);
    let mut invalidation = match line.route.dial(budget) {
        Ok(live) => live,
        Err(error) => return End::Failed(error),
    };
    let Some(identity) = invalidation.known.identity else {
        return End::Refused(StoreError::permanent(
            "the server does not tell CLIENT INFO",
        ));
    };
    // In this order nothing is lost: listen, then track, then let everybody look.
    let tracked =
        subscribe(&mut invalidation.connection, budget).and_then(|()| track(&identity, budget));
    let mut pubsub = invalidation.connection.as_pubsub();
    let end = match tracked {
        Ok(tracked) => {
            line.tracked.install(tracked);
            line.up();
            read(line, &mut pubsub)
        }
        Err(failure) => ended(failure),
    };
    // The end of the subscription would wait for an answer that nobody needs.
    let _ = pubsub.set_read_timeout(Some(Duration::from_millis(1)));
    end
}

/// By a command of ours: the client library's own `subscribe` takes a refusal for a success.
fn subscribe(connection: &mut Connection, budget: Budget) -> Result<(), Failure> {
    let mut session = Session::new(connection, budget);
    session
        .call::<Value>(cmd("SUBSCRIBE").arg(CHANNEL))
        .map(drop)
}

/// Opens the tracked connection, whose keys are told to the connection `listener` on the same server, but for
/// what it changes itself.
fn track(listener: &Identity, budget: Budget) -> Result<Live, Failure> {
    let mut live = dial(listener.server(), budget).map_err(Failure::NotSent)?;
    let mut track = cmd("CLIENT");
    track
        .arg("TRACKING")
        .arg("ON")
        .arg("REDIRECT")
        .arg(listener.id())
        .arg("NOLOOP");
    Session::of(&mut live, budget).call::<()>(&track)?;
    Ok(live)
}

/// Passes messages on, and checks both connections now and then.
fn read(line: &Arc<Line>, pubsub: &mut PubSub<'_>) -> End {
    if let Err(failure) = set_patience(pubsub, SLICE) {
        return ended(failure);
    }
    let mut checked = Instant::now();
    loop {
        if line.stopped() {
            return End::Stopped;
        }
        if line.tracked.is_down() {
            return End::Failed(StoreError::transient("the tracked connection is gone"));
        }
        match next_message(pubsub) {
            Ok(Some(message)) => deliver(line, &message),
            Ok(None) => {}
            Err(failure) => return ended(failure),
        }
        if checked.elapsed() >= CHECK_INTERVAL {
            if let Err(failure) = check(line, pubsub) {
                return ended(failure);
            }
            checked = Instant::now();
        }
    }
}

/// The next message; `None` if none came.
fn next_message(pubsub: &mut PubSub<'_>) -> Result<Option<Msg>, Failure> {
    match pubsub.get_message() {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.is_timeout() => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// Looks for, or wakes, whom a message concerns. What is no list of keys means all keys.
fn deliver(line: &Arc<Line>, message: &Msg) {
    match message.get_payload::<Value>() {
        Ok(Value::Array(keys)) => {
            for key in keys {
                if let Value::BulkString(key) = key
                    && let Ok(slot) = std::str::from_utf8(&key)
                {
                    line.changed(&SlotName::from_store(slot));
                }
            }
        }
        _ => line.interests.wake_all(),
    }
}

/// Makes sure that both connections still answer: either can die without the other's noticing.
fn check(line: &Line, pubsub: &mut PubSub<'_>) -> Result<(), Failure> {
    let patience = CHECK_TIMEOUT.min(line.operation_timeout);
    set_patience(pubsub, patience)?;
    pubsub.ping::<Value>().map_err(failure)?;
    set_patience(pubsub, SLICE)?;
    let ping = cmd("PING");
    line.tracked
        .use_if_idle(Budget::new(patience), |session| session.call::<()>(&ping))
        .unwrap_or(Ok(()))
        .map_err(|(failure, _)| failure)
}

fn set_patience(pubsub: &PubSub<'_>, patience: Duration) -> Result<(), Failure> {
    // Zero is for ever.
    let patience = patience.max(Duration::from_millis(1));
    pubsub.set_read_timeout(Some(patience)).map_err(failure)
}

fn ended(failure: Failure) -> End {
    let refused = matches!(&failure, Failure::Answer(error) if is_not_allowed(error));
    let error = failure.into_store_error("wake-ups");
    if refused {
        End::Refused(error)
    } else {
        End::Failed(error)
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
