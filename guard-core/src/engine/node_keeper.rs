//! The keeper of one node of the store: the thread that does what is due there in the background.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::base::clock::Clock;
use crate::base::panics::shielded;
use crate::base::slot::SlotName;
use crate::base::time::{Budget, after};
use crate::base::token::LeaseToken;
use crate::caller::config::Settings;
use crate::engine::backoff::Backoff;
use crate::engine::gate::Gates;
use crate::engine::schedule::{Due, Need, PendingRelease, Schedule, Task, TendedLease};
use crate::engine::worker::Worker;
use crate::store::contract::{LeaseStore, NodeId};

pub(crate) const THREAD_NAME: &str = "guard-keeper";

/// Leases that are due within this share of the TTL are looked after together, and so renewed by one command.
const TOGETHER: u32 = 30;
/// The longest time by which that brings a renewal forward.
const LONGEST_TOGETHER: Duration = Duration::from_millis(250);
/// One operation gets a third of the TTL, so that a second try comes in time, but no less than this.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(50);
/// The shortest time between two searches for leases that are held for long.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// Longer than any wait.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the thread rests after foreign code, such as a logger, panicked in it.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What the keepers of all nodes work with.
pub(crate) struct Common {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) gates: Arc<Gates>,
}

/// Whether a command that brings a token may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Not as far as the engine knows; the store may know better.
    None,
    UnderWay,
}

enum Next {
    Do(Task),
    Round,
    Stop { given_up: usize },
}

/// What the thread has to do.
#[derive(Default)]
struct Agenda {
    schedule: Schedule,
    /// When to give up what is left; set when the guard is gone.
    stop: Option<Instant>,
    /// When the thread wakes by itself; `None` if never. Spares it wake-ups for what is due later.
    wakes: Option<Instant>,
}

/// The background work on one node.
pub(crate) struct NodeKeeper {
    common: Arc<Common>,
    /// Whether this one warns of leases that are held for long, those of all nodes.
    makes_rounds: bool,
    /// Protects what is to be done. The work itself is done with the lock free.
    agenda: Mutex<Agenda>,
    changed: Condvar,
}

impl NodeKeeper {
    pub(crate) fn new(common: Arc<Common>, makes_rounds: bool) -> Self {
        Self {
            common,
            makes_rounds,
            agenda: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>) -> Result<Worker, io::Error> {
        let keeper = Arc::clone(self);
        Worker::start(THREAD_NAME, move || keeper.work())
    }

    /// Frees `slot` of `token` in the background, for as long as the token might hold it.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken, doubt: Doubt) {
        let now = Instant::now();
        let settings = &self.common.settings;
        let give_up = match doubt {
            Doubt::None if settings.expires => Some(after(now, settings.ttl.get())),
            Doubt::None | Doubt::UnderWay => None,
        };
        let release = PendingRelease {
            slot: slot.clone(),
            token,
            give_up,
            backoff: Backoff::default(),
        };
        self.agenda.lock().schedule.add_release(now, release);
        self.changed.notify_one();
    }

    /// Looks after a lease, first at `due` by the guard's clock; answers its number.
    pub(crate) fn enrol(&self, lease: Weak<dyn TendedLease>, due: Instant) -> u64 {
        let mut agenda = self.agenda.lock();
        let number = agenda.schedule.enrol(lease, due);
        self.hurry(&agenda, due);
        number
    }

    /// Makes a lease due now.
    pub(crate) fn expedite(&self, number: u64) {
        let now = self.common.clock.now();
        let mut agenda = self.agenda.lock();
        agenda.schedule.expedite(number, now);
        self.hurry(&agenda, now);
    }

    pub(crate) fn dismiss(&self, number: u64) {
        self.agenda.lock().schedule.dismiss(number);
    }

    /// Lets the thread finish; releases that are left at `deadline` are given up.
    pub(crate) fn stop(&self, deadline: Instant) {
        self.agenda.lock().stop = Some(deadline);
        self.changed.notify_one();
    }

    /// Lets the thread read the guard's clock again, which was set forward.
    pub(crate) fn clock_jumped(&self) {
        // Under the lock, so that the thread is either before its reading of the clock or asleep.
        let _agenda = self.agenda.lock();
        self.changed.notify_one();
    }
    /// Wakes the thread if `due`, by the guard's clock, is before it wakes by itself.
    fn hurry(&self, agenda: &Agenda, due: Instant) {
        let sleeps_past = |wakes: Instant| {
            let time = due.saturating_duration_since(self.common.clock.now());
            after(Instant::now(), time) < wakes
        };
        if agenda.wakes.is_none_or(sleeps_past) {
            self.changed.notify_one();
        }
    }

    fn work(&self) {
        let mut next_round = self.makes_rounds.then(|| self.next_round());
        loop {
            match shielded("the guard's background work", || self.step(&mut next_round)) {
                Some(true) => {}
                Some(false) => return,
                None => thread::sleep(AFTER_PANIC),
            }
        }
    }

    /// Does what is due next; answers whether there may be more.
    fn step(&self, next_round: &mut Option<Instant>) -> bool {
        match self.next(*next_round) {
            Next::Do(Task::Tend(leases)) => self.tend(leases),
            Next::Do(Task::Release(release)) => self.release(release),
            Next::Round => {
                *next_round = Some(self.next_round());
                self.warn_of_long_holds();
            }
            Next::Stop { given_up: 0 } => return false,
            Next::Stop { given_up } => {
                log::warn!(
                    target: crate::LOG_TARGET,
                    "{given_up} sandbox slots could not be released before the guard ended; \
                     they come free when their TTL or their session ends"
                );
                return false;
            }
        }
        true
    }

    fn next_round(&self) -> Instant {
        let ttl = self.common.settings.ttl.get();
        after(Instant::now(), (ttl / 20).max(SHORTEST_ROUND))
    }

    /// The time for one operation: one that hangs must not cost the leases that wait for the next.
    fn budget(&self) -> Budget {
        let settings = &self.common.settings;
        let third = settings.ttl.get() / 3;
        let time = settings.operation_timeout.min(third.max(SHORTEST_PATIENCE));
        Budget::by(&*self.common.clock, time)
    }

    /// How far ahead leases are looked after together.
    fn together(&self) -> Duration {
        (self.common.settings.ttl.get() / TOGETHER).min(LONGEST_TOGETHER)
    }

    fn next(&self, next_round: Option<Instant>) -> Next {
        let mut agenda = self.agenda.lock();
        loop {
            let (now, clock_now) = (Instant::now(), self.common.clock.now());
            let given_up = agenda.schedule.releases();
            match agenda.stop {
                // Nobody waits for what would come after it.
                Some(deadline) if given_up == 0 || deadline <= now => {
                    return Next::Stop { given_up };
                }
                _ => {}
            }
            if let Some(task) = agenda.schedule.next(now, clock_now, self.together()) {
                return Next::Do(task);
            }
            if next_round.is_some_and(|round| round <= now) {
                return Next::Round;
            }
            let due = agenda.schedule.next_due(now, clock_now);
            let dues = [due, agenda.stop, next_round];
            let never = after(now, NEVER);
            let wakes = dues.into_iter().flatten().fold(never, Instant::min);
            agenda.wakes = Some(wakes);
            self.changed.wait_until(&mut agenda, wakes);
        }
    }

    fn plan(&self, number: u64, due: Instant) {
        self.agenda.lock().schedule.plan(number, due);
    }

    /// Looks after leases, and renews those of a node together.
    fn tend(&self, leases: Vec<Due>) {
        let horizon = after(self.common.clock.now(), self.together());
        let mut renewals: BTreeMap<NodeId, Vec<Due>> = BTreeMap::new();
        for (number, lease) in leases {
            match Arc::clone(&lease).need(horizon) {
                Need::Nothing => self.agenda.lock().schedule.dismiss(number),
                Need::Later(due) => self.plan(number, due),
                Need::Look => {
                    let answer = self.common.store.holder(&lease.name().0, self.budget());
                    self.plan(number, lease.seen(answer));
                }
                Need::Renewal => {
                    let together = renewals.entry(lease.node()).or_default();
                    together.push((number, lease));
                }
            }
        }
        for leases in renewals.values() {
            self.renew(leases);
        }
    }

    fn renew(&self, leases: &[Due]) {
        let names: Vec<_> = leases.iter().map(|(_, lease)| lease.name()).collect();
        let (ttl, budget) = (self.common.settings.ttl, self.budget());
        let answers = self.common.store.renew_many(&names, ttl, budget);
        for ((number, lease), answer) in leases.iter().zip(answers) {
            self.plan(*number, lease.renewed(budget, answer));
        }
    }

    fn warn_of_long_holds(&self) {
        let Common {
            clock,
            settings,
            gates,
            ..
        } = &*self.common;
        if settings.auto_renew {
            return;
        }
        let ttl = settings.ttl.get();
        for (slot, token, held_for) in gates.long_held(clock.now(), ttl / 5 * 4) {
            log::warn!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?}: the lease {token:?} has been held for {held_for:?} of its TTL of \
                 {ttl:?}; raise `lease_ttl` or renew it"
            );
        }
    }

    fn release(&self, mut release: PendingRelease) {
        let (slot, token) = (release.slot.clone(), release.token.clone());
        let answer = self.common.store.release(&slot, &token, self.budget());
        let now = Instant::now();
        let Err(error) = answer else {
            self.common.gates.nudge(&slot);
            return log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?} is freed of {token:?} in the background"
            );
        };
        let over = release.give_up.is_some_and(|give_up| give_up <= now);
        if over && !self.common.store.in_doubt(&token) {
            return log::warn!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?}: its release is given up, the TTL has passed: {error}"
            );
        }
        // Before the log line: a logger may panic.
        let due = after(now, release.backoff.after(&error));
        self.agenda.lock().schedule.add_release(due, release);
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {slot:?}: its release failed again: {error}"
        );
    }
}
