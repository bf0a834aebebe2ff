//! An entry: through the gate, attempt, wait, until there is a lease or a reason why not.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::backoff::{Backoff, jittered};
use crate::engine::Engine;
use crate::error::{GuardError, StoreError};
use crate::gate::Place;
use crate::held::HeldLease;
use crate::interrupt::{Observation, is_pending};
use crate::keeper::Doubt;
use crate::lease::SandboxLease;
use crate::observer::{EnterEvent, OutageEvent, WaitEvent};
use crate::row::Row;
use crate::slot::SlotName;
use crate::store::{Acquired, LeaseStore, NodeId, Watch};
use crate::token::{FencingToken, LeaseToken};
use crate::ttl::{Budget, after};
use crate::wait::{Wait, earlier, pause_until};
use crate::waiter::{Begun, Grant, Paused, Verdict, Waiter};
use crate::waker::Waker;

/// How often at least a watched slot is looked at: the net under wake-ups that did not come.
const WATCHED_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two looks that a wake-up caused and that found the slot held. Also how long
/// an entry that expects to be handed the slot waits before it looks.
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
    let outcome = enter_from(engine, slot, wait, started);
    log(engine, slot, started, &outcome);
    outcome
}

fn enter_from<S: LeaseStore>(
    engine: &Arc<Engine<S>>,
    slot: &SlotName,
    wait: Wait<'_>,
    started: Instant,
) -> Result<SandboxLease, GuardError> {
    let node = engine.store.node(slot);
    let token = engine.new_token();
    // Interrupts come first: one that is pending is taken before a free slot is touched.
    let ahead = if is_pending(wait.interrupt()) {
        None
    } else {
        engine.gates.go_ahead(slot, node)
    };
    let mut attempts = Attempts::default();
    if ahead.is_some() {
        // Most slots are free: this attempt needs nobody who could wait. An interrupt that comes meanwhile
        // stays pending, and is taken if the entry has to wait.
        let answer = ask(engine, slot, &token, started);
        if let Ok(Acquired::Granted { fencing }) = answer.result {
            let grant = make_grant(engine, token.clone(), fencing, answer.sent, false);
            if grant.at < grant.deadline {
                engine.answered(node);
                return Ok(take(engine, slot, node, ahead, grant));
            }
        }
        attempts.answer = Some(answer);
    }
    let waiter = Arc::new(Waiter::new(token));
    let _observation = Observation::start(&waiter, wait.interrupt());
    let place = match ahead {
        Some(mut place) => {
            place.fall_in(&waiter);
            place
        }
        None => engine.gates.join(slot, node, &waiter),
    };
    let entry = Entry {
        engine,
        slot,
        node,
        waiter: &waiter,
        started,
        deadline: wait.deadline(started),
    };
    let verdict = if waiter.is_in_front() {
        entry.attempt(attempts)
    } else {
        entry.log_wait("others of this process are before it");
        if waiter.wait_for_front(entry.deadline) {
            entry.attempt(attempts)
        } else {
            waiter.conclude(Verdict::TimedOut)
        }
    };
    entry.finish(verdict, place)
}

/// What an attempt came to.
struct Answer {
    /// When it was made: the real time, and that of the guard's clock.
    asked: Instant,
    sent: Instant,
    result: Result<Acquired, StoreError>,
}

/// Asks the store for the slot at `now`.
fn ask<S: LeaseStore>(
    engine: &Engine<S>,
    slot: &SlotName,
    token: &LeaseToken,
    now: Instant,
) -> Answer {
    let budget = Budget::starting(now, engine.settings.operation_timeout);
    let sent = engine.clock.given(now);
    let ttl = engine.settings.ttl;
    Answer {
        asked: now,
        sent,
        result: engine.store.acquire(slot, token, ttl, budget),
    }
}

fn make_grant<S: LeaseStore>(
    engine: &Engine<S>,
    token: LeaseToken,
    fencing: Option<FencingToken>,
    sent: Instant,
    contested: bool,
) -> Grant {
    Grant {
        token,
        fencing,
        sent,
        at: engine.clock.now(),
        deadline: after(sent, engine.settings.ttl.validity()),
        row: Row::begin(contested),
    }
}

/// Leaves the gate with a lease.
fn take<S: LeaseStore>(
    engine: &Arc<Engine<S>>,
    slot: &SlotName,
    node: NodeId,
    place: Option<Place<'_>>,
    grant: Grant,
) -> SandboxLease {
    let (token, at) = (grant.token.clone(), grant.at);
    let lease = HeldLease::start(engine, slot.clone(), node, grant);
    if let Some(place) = place {
        let ward: Weak<HeldLease<S>> = Arc::downgrade(&lease);
        place.enter(token, Some(ward), at);
    }
    SandboxLease::new(lease)
}

fn log<S: LeaseStore>(
    engine: &Engine<S>,
    slot: &SlotName,
    started: Instant,
    outcome: &Result<SandboxLease, GuardError>,
) {
    // Nobody listens, most of the time.
    let logs = log::log_enabled!(target: crate::LOG_TARGET, log::Level::Debug);
    if !logs && engine.settings.observer.0.is_none() {
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
    /// The answer to an attempt that was made already.
    answer: Option<Answer>,
    backoff: Backoff,
    watch: Option<Watch>,
    /// When the last attempt was made, until the entry pauses after it.
    asked: Option<Instant>,
    /// Whether a wake-up caused the next look.
    woken: bool,
    /// When a look that a wake-up caused last found the slot held.
    woken_in_vain: Option<Instant>,
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
    /// The same, and whoever hears of a change looks for it.
    PauseForLook(Duration),
    /// The entry pauses, or fails if it is late.
    Retry(StoreError, Duration),
}

impl<S: LeaseStore> Entry<'_, S> {
    /// Attempts until there is a verdict, and ends the watch. The entry is in front of its gate.
    fn attempt(&self, mut attempts: Attempts) -> Verdict {
        let verdict = self.attempt_until_decided(&mut attempts);
        if let Some(watch) = attempts.watch {
            // The attempt that brought the verdict may have taken long: both share one operation's time.
            let start = attempts.asked.unwrap_or_else(Instant::now);
            let timeout = self.engine.settings.operation_timeout;
            watch.end(Budget::starting(start, timeout));
        }
        verdict
    }

    fn attempt_until_decided(&self, attempts: &mut Attempts) -> Verdict {
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
            let (if_late, pause, invites) = match self.attempt_once(attempts) {
                Next::End(verdict) => return self.waiter.conclude(verdict),
                Next::Pause(pause) => (Verdict::TimedOut, pause, false),
                Next::PauseForLook(pause) => (Verdict::TimedOut, pause, true),
                Next::Retry(error, pause) => (Verdict::Failed(error), pause, false),
            };
            if self.is_late() {
                return self.waiter.conclude(if_late);
            }
            attempts.asked = None;
            let until = pause_until(pause, self.deadline);
            // A holder may change its slot often: this bounds what looks in vain cost the store.
            let spaced = attempts
                .woken_in_vain
                .map(|in_vain| after(in_vain, LOOK_SPACING));
            if invites {
                let invited = spaced.unwrap_or_else(Instant::now);
                match self.waiter.pause_for_look(until, invited) {
                    Paused::Over => attempts.woken = false,
                    Paused::Woken => attempts.woken = true,
                    Paused::Looked(Begun { asked, sent, look }) => {
                        attempts.woken = true;
                        attempts.answer = look.end().map(|result| Answer {
                            asked,
                            sent,
                            result,
                        });
                        if attempts.answer.is_some() {
                            continue;
                        }
                        // It may have taken long: whether there is time for another one is asked first.
                        attempts.asked = Some(asked);
                        if self.is_late() {
                            return self.waiter.conclude(Verdict::TimedOut);
                        }
                    }
                }
            } else {
                attempts.woken = self.waiter.pause(until);
            }
            if attempts.woken
                && let Some(spaced) = spaced
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
        let token = self.waiter.token();
        let held_here = engine.gates.is_held(self.slot);
        let Answer {
            asked,
            sent,
            result,
        } = attempts
            .answer
            .take()
            .unwrap_or_else(|| ask(engine, self.slot, &token, Instant::now()));
        attempts.asked = Some(asked);
        match result {
            Ok(Acquired::Granted { fencing }) => {
                self.answered(attempts);
                let grant = make_grant(engine, token, fencing, sent, attempts.contested);
                let budget = Budget::starting(asked, engine.settings.operation_timeout);
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
                self.failed(attempts, error)
            }
        }
    }

    fn granted(&self, attempts: &mut Attempts, grant: Grant, budget: Budget) -> Next {
        let engine = self.engine;
        if grant.at >= grant.deadline {
            // A released token is spent: the entry goes on with another one.
            if self.waiter.replace_token(engine.new_token()) {
                log::warn!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: a grant took longer than the TTL of {:?} and does not count",
                    self.slot, engine.settings.ttl.get()
                );
                self.give_back(&grant.token, budget);
                return Next::Pause(attempts.backoff.next_pause());
            }
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
        attempts.woken_in_vain = attempts.woken.then(Instant::now);
        if attempts.watch.is_none() && !self.is_late() {
            attempts.watch = self.watch();
            if attempts.watch.as_ref().is_some_and(Watch::is_healthy) {
                // What happened between the look and the watch has to be looked for.
                return Next::Pause(Duration::ZERO);
            }
        }
        let watched = attempts.watch.as_ref().is_some_and(Watch::is_healthy);
        let interval = if watched {
            engine.settings.retry_interval.max(WATCHED_INTERVAL)
        } else {
            engine.settings.retry_interval
        };
        let expiry = remaining.map_or(Duration::MAX, |time| time.saturating_add(PAST_EXPIRY));
        let pause = jittered(interval).min(expiry);
        if watched {
            Next::PauseForLook(pause)
        } else {
            Next::Pause(pause)
        }
    }

    fn watch(&self) -> Option<Watch> {
        let waker = Waker::of_entry(self.waiter, Arc::clone(&self.engine.look_terms));
        self.engine.store.watch(self.slot, &waker)
    }

    fn failed(&self, attempts: &mut Attempts, error: StoreError) -> Next {
        let engine = self.engine;
        if !error.is_transient() {
            self.answered(attempts);
            return Next::End(Verdict::Failed(error));
        }
        let failing_for = engine.outages.failed(self.node, Instant::now());
        if failing_for.is_none() {
            log::warn!(target: crate::LOG_TARGET, "the store begins to fail: {error}");
            let event = || OutageEvent {
                lasted: Duration::ZERO,
                over: false,
            };
            engine.tell(event, |observer, event| observer.on_outage(event));
        }
        let failing_for = failing_for.unwrap_or_default();
        if failing_for >= engine.settings.outage_tolerance {
            engine.gates.fail_node(self.node, &error);
            return Next::End(Verdict::Failed(error));
        }
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {:?}: an attempt failed, the store has been failing for {failing_for:?}: {error}",
            self.slot
        );
        Next::Retry(error, attempts.backoff.next_pause())
    }

    fn answered(&self, attempts: &mut Attempts) {
        attempts.backoff = Backoff::default();
        self.engine.answered(self.node);
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
            if self.waiter.in_doubt() || self.engine.store.in_doubt(&token) {
                self.engine.release_later(self.slot, token, Doubt::UnderWay);
            }
        }
        let slot = || self.slot.to_string();
        Err(match verdict {
            Verdict::Granted(grant) => {
                return Ok(take(self.engine, self.slot, self.node, Some(place), grant));
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
