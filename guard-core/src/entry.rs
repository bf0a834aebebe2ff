//! An entry: through the gate, attempt, wait, until there is a lease or a reason why not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::{Backoff, jittered};
use crate::engine::Engine;
use crate::error::{GuardError, StoreError};
use crate::held::HeldLease;
use crate::interrupt::Observation;
use crate::lease::SandboxLease;
use crate::slot::SlotName;
use crate::store::{Acquired, LeaseStore, NodeId, Watch};
use crate::token::{FencingToken, LeaseToken};
use crate::ttl::{Budget, after};
use crate::wait::{Wait, pause_until};
use crate::waiter::{Verdict, Waiter, Waker};

/// How often at least a watched slot is looked at: the net under wake-ups that did not come.
const WATCHED_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two looks that find the slot held.
const LOOK_SPACING: Duration = Duration::from_millis(20);
/// Added to the holder's remaining TTL, so that the look comes after the expiry and not just before it.
const PAST_EXPIRY: Duration = Duration::from_millis(1);

/// Enters `slot`.
pub(crate) fn enter<S: LeaseStore>(
    engine: &Arc<Engine<S>>,
    slot: &SlotName,
    wait: Wait<'_>,
) -> Result<SandboxLease, GuardError> {
    let started = Instant::now();
    let waiter = Arc::new(Waiter::default());
    let node = engine.store.node(slot);
    // Interrupts come first: one that is pending is taken before a free slot is touched.
    let _observation = Observation::start(&waiter, wait.interrupt());
    let _place = engine.gates.join(slot, node, &waiter);
    let entry = Entry {
        engine,
        slot,
        node,
        waiter: &waiter,
        started,
        deadline: wait.deadline(started),
    };
    let outcome = if waiter.wait_for_front(entry.deadline) {
        entry.attempt()
    } else {
        Err(entry.error(waiter.conclude(Verdict::TimedOut)))
    };
    entry.log(&outcome);
    outcome
}

struct Entry<'a, S: LeaseStore> {
    engine: &'a Arc<Engine<S>>,
    slot: &'a SlotName,
    node: NodeId,
    waiter: &'a Arc<Waiter>,
    started: Instant,
    deadline: Option<Instant>,
}

/// What the attempts of an entry have come to so far.
struct Attempts {
    token: LeaseToken,
    /// Whether a command of the token may still take effect.
    doubt: bool,
    backoff: Backoff,
    watch: Option<Watch>,
    last_look: Option<Instant>,
}

/// What follows an attempt.
enum Next {
    /// The entry has its lease.
    Enter(SandboxLease),
    /// The entry pauses, or times out if its deadline is earlier.
    Pause(Duration),
    /// The entry ends unless it was decided already; if its deadline has passed, then in any case.
    Fail { error: StoreError, pause: Duration },
    /// The entry ends with this verdict or an earlier one.
    End(Verdict),
}

impl<S: LeaseStore> Entry<'_, S> {
    /// Attempts until there is an outcome. The entry is in front of its gate.
    fn attempt(&self) -> Result<SandboxLease, GuardError> {
        let mut attempts = Attempts {
            token: self.new_token(),
            doubt: false,
            backoff: Backoff::default(),
            watch: None,
            last_look: None,
        };
        loop {
            let (verdict, pause) = match self.attempt_once(&mut attempts) {
                Next::Enter(lease) => return Ok(lease),
                Next::End(verdict) => return self.end(attempts, verdict),
                Next::Pause(pause) => (Verdict::TimedOut, pause),
                Next::Fail { error, pause } => (Verdict::Failed(error), pause),
            };
            if self.is_late() {
                return self.end(attempts, verdict);
            }
            self.waiter.pause(Some(pause_until(pause, self.deadline)));
            // The holder may change its slot often: this bounds what that costs the store.
            if let Some(looked) = attempts.last_look {
                let rest = after(looked, LOOK_SPACING);
                self.waiter.rest(pause_until(
                    rest.saturating_duration_since(Instant::now()),
                    self.deadline,
                ));
            }
            if let Some(verdict) = self.waiter.verdict() {
                return self.end(attempts, verdict);
            }
        }
    }

    fn attempt_once(&self, attempts: &mut Attempts) -> Next {
        let engine = self.engine;
        let budget = Budget::new(engine.settings.operation_timeout);
        let sent = engine.clock.now();
        let answer = engine
            .store
            .acquire(self.slot, &attempts.token, engine.settings.ttl, budget);
        match answer {
            Ok(Acquired::Granted { fencing }) => {
                self.answered(attempts);
                let deadline = after(sent, engine.settings.ttl.validity());
                self.granted(attempts, fencing, deadline, budget)
            }
            Ok(Acquired::Held { remaining }) => {
                self.answered(attempts);
                self.held(attempts, remaining)
            }
            Err(error) => {
                attempts.doubt |= error.is_unknown();
                self.failed(attempts, error)
            }
        }
    }

    fn granted(
        &self,
        attempts: &mut Attempts,
        fencing: Option<FencingToken>,
        deadline: Instant,
        budget: Budget,
    ) -> Next {
        let engine = self.engine;
        if engine.clock.now() >= deadline {
            log::warn!(
                target: crate::LOG_TARGET,
                "sandbox slot {:?}: a grant took longer than the TTL of {:?} and does not count",
                self.slot, engine.settings.ttl.get()
            );
            // A released token is spent: the entry goes on with another one.
            let late = std::mem::replace(&mut attempts.token, self.new_token());
            self.give_back(&late, budget);
            attempts.doubt = false;
            return Next::Pause(attempts.backoff.next_pause());
        }
        match self.waiter.conclude(Verdict::Granted) {
            Verdict::Granted => Next::Enter(SandboxLease::new(Arc::new(HeldLease::new(
                Arc::clone(engine),
                self.slot.clone(),
                attempts.token.clone(),
                fencing,
                deadline,
            )))),
            decided => {
                self.give_back(&attempts.token, budget);
                attempts.doubt = false;
                Next::End(decided)
            }
        }
    }

    fn held(&self, attempts: &mut Attempts, remaining: Option<Duration>) -> Next {
        let engine = self.engine;
        attempts.last_look = Some(Instant::now());
        if attempts.watch.is_none() && !self.is_late() {
            attempts.watch = engine.store.watch(self.slot, &Waker::new(self.waiter));
            if attempts.watch.is_some() {
                // What happened between the look and the watch has to be looked for.
                attempts.last_look = None;
                return Next::Pause(Duration::ZERO);
            }
        }
        let interval = match attempts.watch {
            Some(_) => engine.settings.retry_interval.max(WATCHED_INTERVAL),
            None => engine.settings.retry_interval,
        };
        let expiry = remaining.map_or(Duration::MAX, |time| time.saturating_add(PAST_EXPIRY));
        Next::Pause(jittered(interval).min(expiry))
    }

    fn failed(&self, attempts: &mut Attempts, error: StoreError) -> Next {
        let engine = self.engine;
        if !error.is_transient() {
            engine.outages.answered(self.node);
            return Next::End(Verdict::Failed(error));
        }
        let failing_for = engine.outages.failed(self.node, Instant::now());
        if failing_for >= engine.settings.outage_tolerance {
            engine.gates.fail_node(self.node, &error);
            return Next::End(Verdict::Failed(error));
        }
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?}: an attempt failed, the store has been failing for {failing_for:?}: {error}",
            self.slot
        );
        let pause = attempts.backoff.next_pause();
        Next::Fail { error, pause }
    }

    fn answered(&self, attempts: &mut Attempts) {
        attempts.backoff = Backoff::default();
        if let Some(outage) = self.engine.outages.answered(self.node) {
            log::info!(target: crate::LOG_TARGET, "the store answers again after {outage:?}");
        }
    }

    /// Ends the entry without a lease: with `verdict`, or with the one that came first.
    fn end(&self, attempts: Attempts, verdict: Verdict) -> Result<SandboxLease, GuardError> {
        if attempts.doubt {
            self.release_later(attempts.token);
        }
        Err(self.error(self.waiter.conclude(verdict)))
    }

    /// Gives back a grant that nobody takes, within what is left of the operation that brought it.
    fn give_back(&self, token: &LeaseToken, budget: Budget) {
        if let Err(error) = self.engine.store.release(self.slot, token, budget) {
            log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {:?}: a grant is given back in the background: {error}", self.slot
            );
            self.release_later(token.clone());
        }
    }

    fn release_later(&self, token: LeaseToken) {
        let ttl = self.engine.settings.ttl.get();
        self.engine
            .keeper
            .release_later(self.slot.clone(), token, ttl);
    }

    fn new_token(&self) -> LeaseToken {
        LeaseToken::generate(&self.engine.settings.owner)
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now())
    }

    fn error(&self, verdict: Verdict) -> GuardError {
        let slot = self.slot.to_string();
        match verdict {
            Verdict::Interrupted => GuardError::Interrupted { slot },
            Verdict::Closed => GuardError::Closed { slot },
            Verdict::Failed(error) => GuardError::store(self.slot, error),
            // `Granted` cannot be: only the entry itself concludes so, and then it has its lease.
            Verdict::TimedOut | Verdict::Granted => GuardError::TimedOut {
                slot,
                waited: self.started.elapsed(),
            },
        }
    }

    fn log(&self, outcome: &Result<SandboxLease, GuardError>) {
        let waited = self.started.elapsed();
        match outcome {
            Ok(lease) => log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {:?} entered by {:?} after {waited:?}", self.slot, lease.token()
            ),
            Err(error) => log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {:?} not entered after {waited:?}: {error}", self.slot
            ),
        }
    }
}
