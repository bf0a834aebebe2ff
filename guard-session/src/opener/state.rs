//! How opening goes: who begins an attempt, who waits for one, and who fails.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use guard_core::StoreError;

use super::Target;

/// The pause after an attempt that failed, which doubles with each …
const PAUSE: Duration = Duration::from_millis(10);
/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a session that nobody waited for is as good as a new one.
const LEFT_OVER: Duration = Duration::from_secs(10);

/// The time between two handshakes with a server that answers none, which doubles with each that is under way, …
const SPACING: Duration = Duration::from_millis(250);
/// … up to this.
const LONGEST_SPACING: Duration = Duration::from_secs(30);

/// What is protected by the opener's lock.
pub(super) struct State<S> {
    /// Sessions that were opened and that nobody has taken yet, and since when.
    opened: Vec<(Instant, S)>,
    /// How many callers wait.
    waiting: usize,
    /// How many attempts are under way. More than one only while none has failed.
    attempts: usize,
    /// How many attempts have failed so far.
    failures: u64,
    failing: Option<Failing>,
    /// The places that did not answer in their share of the time.
    silent: Vec<bool>,
    /// The handshakes that go on in the background.
    alone: HashMap<Target, Alone>,
    stopped: bool,
}

/// The last attempt has failed.
struct Failing {
    error: StoreError,
    in_a_row: u32,
    /// When the next attempt may begin.
    next: Instant,
}

/// Handshakes with one server that does not answer them.
struct Alone {
    count: u32,
    /// When the last of them was left alone.
    last: Instant,
}

/// A caller who waits.
pub(super) struct Call {
    /// How many attempts had failed when it began.
    failures: u64,
    /// Whether it has begun an attempt.
    begun: bool,
}

/// What a caller does next.
pub(super) enum Step<S> {
    Take(S),
    /// This one was left over too long ago; and then the next step.
    Close(S),
    Fail(StoreError),
    Begin,
    Wait(Option<Instant>),
}

impl<S> State<S> {
    pub(super) fn new(places: usize) -> Self {
        Self {
            opened: Vec::new(),
            waiting: 0,
            attempts: 0,
            failures: 0,
            failing: None,
            silent: vec![false; places],
            alone: HashMap::new(),
            stopped: false,
        }
    }

    pub(super) fn call(&mut self) -> Call {
        self.waiting += 1;
        Call {
            failures: self.failures,
            begun: false,
        }
    }

    pub(super) fn end(&mut self, _: Call) {
        self.waiting -= 1;
    }

    pub(super) fn step(&mut self, call: &mut Call, now: Instant) -> Step<S> {
        if let Some((since, session)) = self.opened.pop() {
            // The server may have ended it by now.
            let is_fresh = now.saturating_duration_since(since) < LEFT_OVER;
            return if is_fresh {
                Step::Take(session)
            } else {
                Step::Close(session)
            };
        }
        if self.stopped {
            return Step::Fail(StoreError::transient("connecting: the guard has ended"));
        }
        let begins = match &self.failing {
            // Others may be luckier: then there is a session for one of those who wait.
            _ if self.attempts > 0 => self.failing.is_none() && !call.begun,
            Some(failing) if self.failures > call.failures => {
                return Step::Fail(failing.error.clone());
            }
            Some(failing) if now < failing.next => return Step::Wait(Some(failing.next)),
            _ => true,
        };
        if !begins {
            return Step::Wait(None);
        }
        call.begun = true;
        self.attempts += 1;
        Step::Begin
    }

    /// Why there is nothing, as far as that is known.
    pub(super) fn known_failure(&self) -> Option<StoreError> {
        let failing = self.failing.as_ref();
        failing.map(|failing| failing.error.clone())
    }

    /// An attempt is over. Answers what is to be closed.
    pub(super) fn concluded(&mut self, outcome: Result<S, StoreError>, now: Instant) -> Option<S> {
        self.attempts -= 1;
        match outcome {
            Ok(session) => self.has_opened(session),
            Err(error) => {
                self.has_failed(error, now);
                None
            }
        }
    }

    fn has_failed(&mut self, error: StoreError, now: Instant) {
        let in_a_row = self.failing.as_ref().map_or(0, |failing| failing.in_a_row);
        let pause = PAUSE.saturating_mul(1 << in_a_row.min(16));
        self.failures += 1;
        self.failing = Some(Failing {
            error,
            in_a_row: in_a_row + 1,
            next: now + pause.min(LONGEST_PAUSE),
        });
    }

    /// One that nobody waits for is kept for whoever comes next.
    fn has_opened(&mut self, session: S) -> Option<S> {
        self.failing = None;
        if self.stopped || self.opened.len() >= self.waiting.max(1) {
            return Some(session);
        }
        self.opened.push((Instant::now(), session));
        None
    }

    /// Closes what was opened, and opens no more. Answers what is to be closed.
    pub(super) fn stop(&mut self) -> Vec<(Instant, S)> {
        self.stopped = true;
        mem::take(&mut self.opened)
    }

    /// The places as they are tried.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.silent.len()).collect();
        order.sort_by_key(|index| self.silent[*index]);
        order
    }

    /// The addresses of a place as they are tried.
    pub(super) fn silent_last(&self, mut targets: Vec<Target>) -> Vec<Target> {
        targets.sort_by_key(|target| self.alone.contains_key(target));
        targets
    }

    pub(super) fn is_silent(&mut self, place: usize) {
        self.silent[place] = true;
    }

    pub(super) fn answers(&mut self, place: usize) {
        self.silent[place] = false;
    }

    /// Whether there is room for one more handshake with a server that does not answer.
    pub(super) fn may_dial(&self, target: &Target, now: Instant) -> bool {
        self.alone.get(target).is_none_or(|alone| {
            let spacing = SPACING.saturating_mul(1 << alone.count.min(16));
            now >= alone.last + spacing.min(LONGEST_SPACING)
        })
    }

    /// A handshake goes on in the background from now on.
    pub(super) fn left_alone(&mut self, place: usize, target: &Target, now: Instant) {
        self.is_silent(place);
        let alone = self.alone.entry(target.clone()).or_insert(Alone {
            count: 0,
            last: now,
        });
        alone.count += 1;
        alone.last = now;
    }

    pub(super) fn no_more_alone(&mut self, place: usize, target: &Target) {
        self.answers(place);
        if let Some(alone) = self.alone.get_mut(target) {
            alone.count -= 1;
            if alone.count == 0 {
                self.alone.remove(target);
            }
        }
    }

    /// A handshake in the background is over. Answers what is to be closed.
    pub(super) fn answered_late(
        &mut self,
        place: usize,
        target: &Target,
        outcome: Result<S, StoreError>,
    ) -> Option<S> {
        self.no_more_alone(place, target);
        self.has_opened(outcome.ok()?)
    }
}
