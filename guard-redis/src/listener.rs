//! The thread that reads the invalidation connection, and keeps both connections of the wake-ups alive.

use std::sync::Arc;

use guard_core::{Budget, SlotName, StoreError};
use redis::{Msg, Value, cmd};

use crate::answer::Done;
use crate::dial::dial;
use crate::error::{classify, may_be_a_farewell};
use crate::failure::Failure;
use crate::live::Live;
use crate::session::Session;
use crate::subscription::{Audience, End, persist, read, subscribe};
use crate::unanswered::Identity;
use crate::wakeups::Line;
use crate::worker::Stop;

/// Where the server sends its messages.
const CHANNEL: &str = "__redis__:invalidate";

/// Listens until the thread is asked to end. While the server refuses, it is asked again now and then.
pub(crate) fn work(line: &Arc<Line>, stop: &Stop) {
    let listen = || {
        let end = listen(line, stop);
        line.down();
        end
    };
    persist(stop, "wake-ups", listen, |why| line.switch_off(why));
}

/// Connects and listens until something ends it.
fn listen(line: &Arc<Line>, stop: &Stop) -> End {
    let budget = Budget::new(line.operation_timeout);
    let generation = line.tracked.generation();
    let mut invalidation = match line.route.dial(budget) {
        Ok(live) => live,
        Err(error) => return End::Failed(error),
    };
    let Some(identity) = invalidation.known.identity else {
        return End::Refused(StoreError::permanent(
            "the server does not tell CLIENT INFO",
        ));
    };
    let connection = &mut invalidation.connection;
    // In this order nothing is lost: listen, then track, then let everybody look.
    let tracked = subscribe(connection, CHANNEL, budget).and_then(|()| track(&identity, budget));
    let tracked = match tracked {
        Ok(tracked) => tracked,
        // That this connection is gone is no refusal, in whatever words it is said.
        Err(Failure::Answer(error))
            if may_be_a_farewell(&error) && Session::new(connection, budget).is_hung_up() =>
        {
            return End::Failed(classify("tracking", error));
        }
        Err(failure) => return failure.into(),
    };
    if !line.tracked.install(tracked, generation) {
        return End::Failed(StoreError::transient("the master was replaced meanwhile"));
    }
    line.up();
    read(connection, stop, line, line.operation_timeout)
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
    Session::of(&mut live, budget).call::<Done>(&track)?;
    Ok(live)
}

impl Audience for Arc<Line> {
    /// Wakes whom a message concerns. What is no list of keys means all keys.
    fn hear(&self, message: &Msg) {
        match message.get_payload::<Value>() {
            Ok(Value::Array(keys)) => {
                for key in keys {
                    if let Value::BulkString(key) = key
                        && let Ok(slot) = std::str::from_utf8(&key)
                    {
                        self.interests.wake(&SlotName::from_store(slot));
                    }
                }
            }
            _ => self.interests.wake_all(),
        }
    }

    fn is_well(&self) -> Result<(), StoreError> {
        if self.tracked.is_down() {
            return Err(StoreError::transient("the tracked connection is gone"));
        }
        Ok(())
    }

    /// Either connection can die without the other's noticing, or its server become a replica.
    fn check(&self, budget: Budget) -> Result<(), Failure> {
        self.tracked
            .use_if_idle(budget, |session| session.check())
            .unwrap_or(Ok(()))
    }
}
