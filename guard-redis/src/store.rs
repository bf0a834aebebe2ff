//! The store contract in commands and scripts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, Budget, Capabilities, HandedOver, Holder, LeaseStore, LeaseToken, LeaseTtl, Released,
    Renewed, SlotName, StoreError, Waker, Watch,
};
use redis::cmd;

use crate::error::is_wrong_type;
use crate::links::Links;
use crate::script::Script;
use crate::session::{Failure, Session};
use crate::wakeups::WakeupLine;

/// The longest TTL, about 146 million years: the server adds it to its clock, and both are kept in signed
/// 64-bit milliseconds.
const MAX_TTL: Duration = Duration::from_millis(1 << 62);

/// What `acquire.lua` answers when the token holds the slot.
const GRANTED: i64 = -3;

/// Leases in Redis. Clones are handles of the same connections.
#[derive(Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    links: Links,
    wakeups: WakeupLine,
    acquire: Script,
    renew: Script,
    release: Script,
    hand_over: Script,
    holder: Script,
}

impl RedisStore {
    pub(crate) fn new(links: Links, wakeups: WakeupLine) -> Self {
        Self(Arc::new(Inner {
            links,
            wakeups,
            acquire: Script::new(include_str!("../scripts/acquire.lua")),
            renew: Script::new(include_str!("../scripts/renew.lua")),
            release: Script::new(include_str!("../scripts/release.lua")),
            hand_over: Script::new(include_str!("../scripts/hand_over.lua")),
            holder: Script::new(include_str!("../scripts/holder.lua")),
        }))
    }

    pub(crate) const fn known_capabilities() -> Capabilities {
        Capabilities::new(MAX_TTL)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

impl LeaseStore for RedisStore {
    fn acquire(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Acquired, StoreError> {
        let millis = ttl.as_millis().to_string();
        let arguments = [token.as_str(), &millis];
        let take = |session: &mut Session<'_>| {
            let answer = self.0.acquire.run(session, slot.as_str(), &arguments)?;
            Ok(acquired(answer))
        };
        let first = match self.0.wakeups.look(slot, budget, take) {
            None => None,
            Some(Err(error)) if error.is_unknown() => Some(error),
            Some(result) => return result,
        };
        let mut set = cmd("SET");
        set.arg(slot.as_str())
            .arg(token.as_str())
            .arg("NX")
            .arg("PX")
            .arg(&millis);
        let result = self.0.links.operate("acquire", budget, |session| {
            // The plain command decides a free slot in one round trip. What it leaves open (whose is it,
            // for how long, is it a token at all) the script answers, and takes what has come free since.
            if session.call::<Option<String>>(&set)?.is_some() {
                return Ok(Acquired::Granted { fencing: None });
            }
            take(session)
        });
        // The look that failed may still take effect: without an answer to this it stays unknown.
        result.map_err(|error| match first {
            Some(_) => error.with_unknown_outcome(),
            None => error,
        })
    }

    fn renew(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<Renewed, StoreError> {
        let arguments = [token.as_str(), &ttl.as_millis().to_string()];
        self.0.links.operate("renew", budget, |session| {
            let held = self.0.renew.run(session, slot.as_str(), &arguments);
            Ok(if is_yes(held)? {
                Renewed::Renewed
            } else {
                Renewed::NotHeld
            })
        })
    }

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        self.0.links.operate("release", budget, |session| {
            let held = self
                .0
                .release
                .run(session, slot.as_str(), &[token.as_str()]);
            // After a try without an answer the slot was most likely freed by that one.
            Ok(if is_yes(held)? || session.repeated {
                Released::Released
            } else {
                Released::NotHeld
            })
        })
    }

    fn hand_over(
        &self,
        slot: &SlotName,
        from: &LeaseToken,
        to: &LeaseToken,
        ttl: LeaseTtl,
        budget: Budget,
    ) -> Result<HandedOver, StoreError> {
        let arguments = [from.as_str(), to.as_str(), &ttl.as_millis().to_string()];
        self.0.links.operate("hand over", budget, |session| {
            let held = self.0.hand_over.run(session, slot.as_str(), &arguments);
            Ok(if is_yes(held)? {
                HandedOver::Granted { fencing: None }
            } else {
                HandedOver::NotHeld
            })
        })
    }

    fn holder(&self, slot: &SlotName, budget: Budget) -> Result<Option<Holder>, StoreError> {
        let found = self.0.links.operate("holder", budget, |session| {
            self.0
                .holder
                .run::<Option<(Vec<u8>, i64)>>(session, slot.as_str(), &[])
        })?;
        Ok(found.map(|(token, millis)| {
            // A foreign token need not be text; it is only shown here, in part.
            let token = String::from_utf8_lossy(&token);
            Holder::new(LeaseToken::from_store(&*token), remaining(millis))
        }))
    }

    fn watch(&self, slot: &SlotName, waker: &Waker) -> Option<Watch> {
        self.0.wakeups.watch(slot, waker)
    }

    fn capabilities(&self) -> Capabilities {
        Self::known_capabilities()
    }
}

/// What `acquire.lua` answers.
fn acquired(answer: i64) -> Acquired {
    match answer {
        GRANTED => Acquired::Granted { fencing: None },
        millis => Acquired::Held {
            remaining: remaining(millis),
        },
    }
}

/// Whether a script that compares the token found it. Something in the slot that is not a string is not
/// the token.
fn is_yes(answer: Result<i64, Failure>) -> Result<bool, Failure> {
    match answer {
        Ok(held) => Ok(held == 1),
        Err(Failure::Answer(error)) if is_wrong_type(&error) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The remaining TTL from `PTTL`'s answer: negative is none.
fn remaining(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}
