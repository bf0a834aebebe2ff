//! An entry: through the gate, attempt, wait, until there is a lease or a reason why not.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::base::error::{GuardError, StoreError};
use crate::base::slot::SlotName;
use crate::base::time::Budget;
use crate::base::token::LeaseToken;
use crate::caller::interrupt::Observation;
use crate::caller::lease::SandboxLease;
use crate::caller::observer::{EnterEvent, OutageEvent, WaitEvent};
use crate::caller::wait::{Wait, earlier, pause_until};
use crate::engine::backoff::Backoff;
use crate::engine::gate::Place;
use crate::engine::lease::HeldLease;
use crate::engine::looks::{self, InVain, LOOK_SPACING};
use crate::engine::node_keeper::Doubt;
use crate::engine::schedule::TendedLease as _;
use crate::engine::shared::Engine;
use crate::engine::turns::Turn;
use crate::engine::waiter::{Grant, Verdict, Waiter};
use crate::store::contract::{Acquired, LeaseStore, NodeId};
use crate::store::watch::{Subscriber, Watch};

/// Enters `slot`.
pub(crate) fn enter<S: LeaseStore>(
    engine: &Arc<Engine<S>>,
    slot: &SlotName,
    wait: Wait<'_>,
) -> Result<SandboxLease, GuardError> {
    engine.check_process(slot)?;
    let budget = engine.budget();
    let outcome = enter_from(engine, slot, wait, budget);
    log(engine, slot, budget.started(), &outcome);
    outcome
}

/// Enters with the budget of the first attempt, from which the entry counts.
fn enter_from<S: LeaseStore>(
    engine: &Arc<Engine<S>>,
    slot: &SlotName,
    wait: Wait<'_>,
    budget: Budget,
) -> Result<SandboxLease, GuardError> {
    let started = budget.started();
    let node = engine.store.node(slot);
    let waiter = Arc::new(Waiter::new(engine.new_token()));
    // Interrupts come first: one that is pending is taken before a free slot is touched.
    let interruptible: Arc<Waiter> = Arc::clone(&waiter);
    let _observation = Observation::start(interruptible, wait.interrupt());
    let place = engine.gates.join(slot, node, &waiter);
    let entry = Entry {
        engine,
        slot,
        node,
        waiter: &waiter,
        started,
        deadline: wait.deadline(started),
    };
    let verdict = if waiter.is_in_front() {
        entry.attempt(Some(budget))
    } else {
        entry.log_wait("others of this process are before it");
        if waiter.wait_for_front(entry.deadline) {
            entry.attempt(None)
        } else {
            waiter.conclude(Verdict::TimedOut)
        }
    };
    entry.finish(verdict, place)
}

fn log<S: LeaseStore>(
    engine: &Engine<S>,
    slot: &SlotName,
    started: Instant,
    outcome: &Result<SandboxLease, GuardError>,
) {
    // Nobody listens, most of the time.
    let logs = log::log_enabled!(target: crate::LOG_TARGET, log::Level::Debug);
    if !logs && engine.settings.observer.is_none() {
        return;
    }
    let waited = started.elapsed();
    match outcome {
        Ok(lease) => {
            log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?} entered by {:?} after {waited:?}", lease.token()
            );
            let event = || EnterEvent {
                slot: slot.clone(),
                waited,
                fencing: lease.fencing_token(),
            };
            engine.tell(event, |observer, event| observer.on_enter(event));
        }
        Err(error) => log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {slot:?} not entered after {waited:?}: {error}"
        ),
    }
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
#[derive(Default)]
struct Attempts {
    backoff: Backoff,
    watch: Option<Watch>,
    /// The budget of the attempt under way or of the last one, until the entry pauses after it.
    budget: Option<Budget>,
    /// Since when all attempts of the entry have failed.
    failing_since: Option<Instant>,
    /// Whether a wake-up caused the next look.
    woken: bool,
    in_vain: InVain,
    /// Whether another process was seen to hold the slot.
    contested: bool,
    /// Whether the slot was found held, and the wait for it was told.
    waiting: bool,
}

/// What follows an attempt.
enum Next {
    /// The entry ends with this verdict or with the one that came first.
    End(Verdict),
    /// The entry pauses, or times out if it is late.
    Pause(Duration),
    /// The entry pauses, or fails if it is late.
    Retry(StoreError, Duration),
}

impl<S: LeaseStore> Entry<'_, S> {
    /// Attempts until there is a verdict, and ends the watch. The entry is in front of its gate; `budget` is that of
    /// its first attempt, if that begins now.
    fn attempt(&self, budget: Option<Budget>) -> Verdict {
        let mut attempts = Attempts {
            budget,
            ..Attempts::default()
        };
        let verdict = self.attempt_until_decided(&mut attempts);
        if let Some(watch) = attempts.watch {
            // The attempt that brought the verdict may have taken long: both share one operation's time.
            watch.end(attempts.budget.unwrap_or_else(|| self.engine.budget()));
        }
        verdict
    }

    fn attempt_until_decided(&self, attempts: &mut Attempts) -> Verdict {
        // An entry that was interrupted before, or found the guard closed, asks the store nothing.
        if let Some(verdict) = self.waiter.verdict() {
            return verdict;
        }
        if self.waiter.expects_hand_over() {
            attempts.woken = self.waiter.pause(pause_until(LOOK_SPACING, self.deadline));
            if let Some(verdict) = self.waiter.verdict() {
                return verdict;
            }
            if self.is_late() {
                return self.waiter.conclude(Verdict::TimedOut);
            }
            // The slot is most likely held still: the first look is made to be told of its next change.
            attempts.watch = self.watch();
        }
        loop {
            let (if_late, pause) = match self.attempt_once(attempts) {
                Next::End(verdict) => return self.waiter.conclude(verdict),
                Next::Pause(pause) => (Verdict::TimedOut, pause),
                Next::Retry(error, pause) => (Verdict::Failed(error), pause),
            };
            if self.is_late() {
                return self.waiter.conclude(if_late);
            }
            attempts.budget = None;
            attempts.woken = self.waiter.pause(pause_until(pause, self.deadline));
            if attempts.woken
                && let Some(spaced) = attempts
                    .in_vain
                    .next_look(self.engine.settings.retry_interval)
            {
                self.waiter.rest(earlier(spaced, self.deadline));
            }
            if let Some(verdict) = self.waiter.verdict() {
                return verdict;
            }
        }
    }

    fn attempt_once(&self, attempts: &mut Attempts) -> Next {
        let engine = self.engine;
        // A token that was ended by force is spent, whatever may still come of it.
        if self.waiter.is_revoked() {
            self.change_token();
        }
        let token = self.waiter.token();
        let held_here = engine.gates.is_held(self.slot);
        let budget = *attempts.budget.get_or_insert_with(|| engine.budget());
        let ttl = engine.settings.ttl;
        match engine.store.acquire(self.slot, &token, ttl, budget) {
            Ok(Acquired::Granted { fencing }) => {
                self.answered(attempts);
                let grant = Grant {
                    token,
                    fencing,
                    sent: budget.sent(),
                    at: engine.clock.now(),
                    deadline: ttl.deadline(budget),
                    turn: Turn::first(attempts.contested),
                };
                self.granted(attempts, grant, budget)
            }
            Ok(Acquired::Held { remaining }) => {
                self.answered(attempts);
                attempts.contested |= !held_here && !engine.gates.is_held(self.slot);
                self.held(attempts, remaining)
            }
            Err(error) => {
                if error.is_unknown() {
                    self.waiter.doubt();
                }
                self.failed(attempts, error, budget.started())
            }
        }
    }

    fn granted(&self, attempts: &mut Attempts, grant: Grant, budget: Budget) -> Next {
        let engine = self.engine;
        let late = grant.at >= grant.deadline;
        // A released token is spent: the entry goes on with another one.
        if (late || self.waiter.is_revoked()) && self.change_token() {
            if late {
                log::warn!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: a grant took longer than the TTL of {:?} and does not count",
                    self.slot, engine.settings.ttl.get()
                );
            }
            self.give_back(&grant.token, budget);
            return Next::Pause(attempts.backoff.next_pause());
        }
        let token = grant.token.clone();
        let verdict = self.waiter.conclude(Verdict::Granted(grant));
        if !matches!(verdict, Verdict::Granted(_)) {
            self.give_back(&token, budget);
        }
        Next::End(verdict)
    }

    fn held(&self, attempts: &mut Attempts, remaining: Option<Duration>) -> Next {
        let engine = self.engine;
        if !std::mem::replace(&mut attempts.waiting, true) && !self.is_late() {
            self.log_wait("it is held");
        }
        attempts.in_vain.found_held(attempts.woken, remaining);
        if attempts.watch.is_none() && !self.is_late() && self.waiter.verdict().is_none() {
            attempts.watch = self.watch();
            if attempts.watch.as_ref().is_some_and(Watch::is_healthy) {
                // What happened between the look and the watch has to be looked for.
                return Next::Pause(Duration::ZERO);
            }
        }
        let watched = attempts.watch.as_ref().is_some_and(Watch::is_healthy);
        let interval = engine.settings.retry_interval;
        Next::Pause(looks::pause(interval, watched, remaining))
    }

    fn watch(&self) -> Option<Watch> {
        let subscriber = Subscriber::new(self.waiter);
        self.engine.store.watch(self.slot, &subscriber)
    }

    /// An attempt that began at `began` has failed.
    fn failed(&self, attempts: &mut Attempts, error: StoreError, began: Instant) -> Next {
        let engine = self.engine;
        if !error.is_transient() {
            self.answered(attempts);
            return Next::End(Verdict::Failed(error));
        }
        let (tolerance, now) = (engine.settings.outage_tolerance, Instant::now());
        let (node_fails_for, is_first) = engine.outages.failed(self.node, began, now, tolerance);
        if is_first {
            log::warn!(target: crate::LOG_TARGET, "the store begins to fail: {error}");
            let event = || OutageEvent {
                lasted: Duration::ZERO,
                over: false,
            };
            engine.tell(event, |observer, event| observer.on_outage(event));
        }
        if node_fails_for >= tolerance {
            engine.gates.fail_node(self.node, &error);
            return Next::End(Verdict::Failed(error));
        }
        // Others may be answered, over connections that they have, while this entry gets none.
        let since = *attempts.failing_since.get_or_insert(began);
        let failing_for = now.saturating_duration_since(since).max(node_fails_for);
        if failing_for >= tolerance {
            return Next::End(Verdict::Failed(error));
        }
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?}: an attempt failed, the store has been failing for {failing_for:?}: {error}",
            self.slot
        );
        let pause = attempts.backoff.next_pause();
        Next::Retry(error, pause.min(tolerance - failing_for))
    }

    fn answered(&self, attempts: &mut Attempts) {
        attempts.backoff = Backoff::default();
        attempts.failing_since = None;
        self.engine.answered(self.node);
    }

    /// Lets the undecided entry go on with another token, and makes sure of the end of the one before. Answers
    /// whether it does.
    fn change_token(&self) -> bool {
        let spent = self.waiter.token();
        let in_doubt = self.is_in_doubt(&spent);
        let changed = self.waiter.replace_token(self.engine.new_token());
        if changed && in_doubt {
            self.engine.release_later(self.slot, spent, Doubt::UnderWay);
        }
        changed
    }

    /// Whether a command may still put the entry's token into the slot.
    fn is_in_doubt(&self, token: &LeaseToken) -> bool {
        self.waiter.in_doubt() || self.engine.store.in_doubt(token)
    }

    /// Gives back a grant that nobody takes, within what is left of the operation that brought it.
    fn give_back(&self, token: &LeaseToken, budget: Budget) {
        if let Err(error) = self.engine.store.release(self.slot, token, budget) {
            log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {:?}: a grant is given back in the background: {error}", self.slot
            );
            self.engine
                .release_later(self.slot, token.clone(), Doubt::None);
        }
    }

    /// Leaves the gate: with a lease, or with an error and nothing of this entry's in the slot.
    fn finish(&self, verdict: Verdict, place: Place<'_>) -> Result<SandboxLease, GuardError> {
        if !matches!(verdict, Verdict::Granted(_)) {
            let token = self.waiter.token();
            if self.is_in_doubt(&token) {
                self.engine.release_later(self.slot, token, Doubt::UnderWay);
            }
        }
        let slot = || self.slot.to_string();
        Err(match verdict {
            Verdict::Granted(grant) => {
                let (token, at) = (grant.token.clone(), grant.at);
                let lease = HeldLease::start(self.engine, self.slot.clone(), self.node, grant);
                let scheduled: Weak<HeldLease<S>> = Arc::downgrade(&lease);
                if place.enter(token, Some(scheduled), at) {
                    lease.end_by_force();
                }
                return Ok(SandboxLease::new(lease));
            }
            Verdict::Interrupted => GuardError::Interrupted { slot: slot() },
            Verdict::Closed => GuardError::Closed { slot: slot() },
            Verdict::Failed(error) => GuardError::store(self.slot, error),
            Verdict::TimedOut => GuardError::TimedOut {
                slot: slot(),
                waited: self.started.elapsed(),
            },
        })
    }

    fn log_wait(&self, why: &str) {
        log::debug!(target: crate::LOG_TARGET, "waiting for sandbox slot {:?}: {why}", self.slot);
        let event = || WaitEvent {
            slot: self.slot.clone(),
        };
        self.engine
            .tell(event, |observer, event| observer.on_wait(event));
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now())
    }
}
