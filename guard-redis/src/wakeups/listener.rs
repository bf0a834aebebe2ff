//! The thread that reads the invalidation connection, and keeps both connections of the wake-ups alive.

use std::sync::Arc;

use guard_core::{Budget, SlotName, StoreError};
use redis::{Msg, Value, cmd};

use crate::connection::dial::dial;
use crate::connection::exchange::Exchange;
use crate::connection::identity::Identity;
use crate::connection::open_connection::OpenConnection;
use crate::protocol::answer::Done;
use crate::protocol::error::{classify, may_be_a_farewell};
use crate::protocol::failure::Failure;
use crate::wakeups::invalidations::Invalidations;
use crate::wakeups::subscription::{Audience, End, persist, read, subscribe};
use crate::wakeups::worker::Stop;

/// Where the server sends its messages.
const CHANNEL: &str = "__redis__:invalidate";

/// Listens until the thread is asked to end. While the server refuses, it is asked again now and then.
pub(crate) fn work(invalidations: &Arc<Invalidations>, stop: &Stop) {
    let listen = || {
        let end = listen(invalidations, stop);
        invalidations.down();
        end
    };
    persist(stop, "wake-ups", listen, |why| {
        invalidations.switch_off(why)
    });
}

/// Connects and listens until something ends it.
fn listen(invalidations: &Arc<Invalidations>, stop: &Stop) -> End {
    let budget = Budget::new(invalidations.operation_timeout);
    let generation = invalidations.tracked.generation();
    let mut listening = match invalidations.route.dial(budget) {
        Ok(connection) => connection,
        Err(error) => return End::Failed(error),
    };
    let Some(identity) = listening.identity.clone() else {
        return End::Refused(StoreError::permanent(
            "the server does not tell CLIENT INFO",
        ));
    };
    let connection = &mut listening;
    // In this order nothing is lost: listen, then track, then let everybody look.
    let tracked = subscribe(connection, CHANNEL, budget).and_then(|()| track(&identity, budget));
    let tracked = match tracked {
        Ok(tracked) => tracked,
        // That this connection is gone is no refusal, in whatever words it is said.
        Err(Failure::Answer(error))
            if may_be_a_farewell(&error) && Exchange::on(connection, budget).is_hung_up() =>
        {
            return End::Failed(classify("tracking", error));
        }
        Err(failure) => return failure.into(),
    };
    if !invalidations.tracked.install(tracked, generation) {
        return End::Failed(StoreError::transient("the master was replaced meanwhile"));
    }
    invalidations.up();
    read(
        connection,
        stop,
        invalidations,
        invalidations.operation_timeout,
    )
}

/// Opens the tracked connection, whose keys are told to the connection `listener` on the same server, but for
/// what it changes itself.
fn track(listener: &Identity, budget: Budget) -> Result<OpenConnection, Failure> {
    let mut tracked = dial(listener.server(), budget).map_err(Failure::NotSent)?;
    let mut track = cmd("CLIENT");
    track
        .arg("TRACKING")
        .arg("ON")
        .arg("REDIRECT")
        .arg(listener.id())
        .arg("NOLOOP");
    Exchange::on(&mut tracked, budget).call::<Done>(&track)?;
    Ok(tracked)
}

impl Audience for Arc<Invalidations> {
    /// Wakes whom a message concerns. What is no list of keys means all keys.
    fn hear(&self, message: &Msg) {
        match message.get_payload::<Value>() {
            Ok(Value::Array(keys)) => {
                for key in keys {
                    if let Value::BulkString(key) = key
                        && let Ok(slot) = std::str::from_utf8(&key)
                    {
                        self.subscribers.wake(&SlotName::from_store(slot));
                    }
                }
            }
            _ => self.subscribers.wake_all(),
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
            .use_if_idle(budget, |exchange| exchange.check())
            .unwrap_or(Ok(()))
    }
}
