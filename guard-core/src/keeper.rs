//! The keeper: one thread of a guard that does what nobody waits for.
//!
//! It renews leases, notices when one is lost, goes on with releases that could not be made at once, and
//! warns of leases that are held for long. It never runs user code.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::config::Settings;
use crate::gate::Gates;
use crate::releases::{PendingRelease, Releases};
use crate::slot::SlotName;
use crate::store::{LeaseStore, NodeId};
use crate::token::LeaseToken;
use crate::ttl::{Budget, after};
use crate::wards::{Due, Need, Ward, Wards};
use crate::worker::Worker;

const THREAD_NAME: &str = "guard-keeper";

/// Leases that are due within this share of the TTL are looked after together, and so renewed by one command.
const TOGETHER: u32 = 30;
/// The longest time by which that brings a renewal forward.
const LONGEST_TOGETHER: Duration = Duration::from_millis(250);
/// The keeper gives one operation a third of the TTL, so that a second try comes in time, but no less than this.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(50);
/// The shortest time between two searches for leases that are held for long.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);

/// What the keeper has to do.
#[derive(Default)]
struct Agenda {
    releases: Releases,
    wards: Wards,
    /// When to give up what is left; set when the guard is gone.
    stop: Option<Instant>,
    /// When the thread wakes by itself; `None` if never. Spares it wake-ups for what is due later.
    wakes: Option<Instant>,
}

struct Shared {
    /// Protects what is to be done. The work itself is done with the lock free.
    agenda: Mutex<Agenda>,
    changed: Condvar,
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
    gates: Arc<Gates>,
}

/// The keeper's handle.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    worker: Mutex<Option<Worker>>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) const THREAD_NAME: &str = THREAD_NAME;

    pub(crate) fn start(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        settings: Arc<Settings>,
        gates: Arc<Gates>,
    ) -> Result<Self, io::Error> {
        let shared = Arc::new(Shared {
            agenda: Mutex::default(),
            changed: Condvar::new(),
            store,
            clock,
            settings,
            gates,
        });
        let listener = Arc::downgrade(&shared);
        shared
            .clock
            .on_jump(Arc::new(move || match listener.upgrade() {
                Some(shared) => {
                    // Under the lock, so that the keeper is either before its reading of the clock or asleep.
                    let _agenda = shared.agenda.lock();
                    shared.changed.notify_one();
                    true
                }
                None => false,
            }));
        let work = {
            let shared = Arc::clone(&shared);
            move || shared.work()
        };
        let worker = Worker::start(THREAD_NAME, work)?;
        Ok(Self {
            shared,
            worker: Mutex::new(Some(worker)),
        })
    }

    /// Frees `slot` of `token` in the background, for as long as the token might hold it.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken, doubt: Doubt) {
        let now = Instant::now();
        let settings = &self.shared.settings;
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
        self.shared.agenda.lock().releases.add(now, release);
        self.shared.changed.notify_one();
    }

    /// Takes a lease into care, due at `due` by the guard's clock; answers its number, which is never zero.
    pub(crate) fn enrol(&self, lease: Weak<dyn Ward>, due: Instant) -> u64 {
        let mut agenda = self.shared.agenda.lock();
        let number = agenda.wards.enrol(lease, due);
        self.shared.hurry(&agenda, due);
        number
    }

    /// Makes a lease in care due now.
    pub(crate) fn expedite(&self, number: u64) {
        let now = self.shared.clock.now();
        let mut agenda = self.shared.agenda.lock();
        agenda.wards.expedite(number, now);
        self.shared.hurry(&agenda, now);
    }

    pub(crate) fn dismiss(&self, number: u64) {
        self.shared.agenda.lock().wards.dismiss(number);
    }

    /// Lets the keeper finish; releases that are left at `deadline` are given up.
    pub(crate) fn stop(&self, deadline: Instant) -> Option<Worker> {
        self.shared.agenda.lock().stop = Some(deadline);
        self.shared.changed.notify_one();
        self.worker.lock().take()
    }
}

/// Whether a command that brings a token may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Not as far as the engine knows; the store may know better.
    None,
    UnderWay,
}

enum Task {
    Release(PendingRelease),
    /// Leases that are due, earliest first.
    Tend(Vec<Due>),
    Round,
    Stop {
        given_up: usize,
    },
}

impl Shared {
    /// Wakes the thread if `due`, by the guard's clock, is before it wakes by itself.
    fn hurry(&self, agenda: &Agenda, due: Instant) {
        let sleeps_past = |wakes: Instant| {
            let time = due.saturating_duration_since(self.clock.now());
            after(Instant::now(), time) < wakes
        };
        if agenda.wakes.is_none_or(sleeps_past) {
            self.changed.notify_one();
        }
    }

    fn work(&self) {
        let mut next_round = after(Instant::now(), self.round());
        loop {
            match self.next_task(next_round) {
                Task::Tend(leases) => self.tend(leases),
                Task::Release(release) => self.release(release),
                Task::Round => {
                    self.warn_of_long_holds();
                    next_round = after(Instant::now(), self.round());
                }
                Task::Stop { given_up: 0 } => return,
                Task::Stop { given_up } => {
                    return log::warn!(
                        target: crate::LOG_TARGET,
                        "{given_up} sandbox slots could not be released before the guard ended; \
                         they come free when their TTL or their session ends"
                    );
                }
            }
        }
    }

    fn round(&self) -> Duration {
        (self.settings.ttl.get() / 20).max(SHORTEST_ROUND)
    }

    /// The time for one operation: one that hangs must not cost the leases that wait for the next.
    fn budget(&self) -> Budget {
        let third = self.settings.ttl.get() / 3;
        Budget::new(
            self.settings
                .operation_timeout
                .min(third.max(SHORTEST_PATIENCE)),
        )
    }

    /// How far ahead leases are looked after together.
    fn together(&self) -> Duration {
        (self.settings.ttl.get() / TOGETHER).min(LONGEST_TOGETHER)
    }

    fn next_task(&self, next_round: Instant) -> Task {
        let mut agenda = self.agenda.lock();
        loop {
            let (now, clock_now) = (Instant::now(), self.clock.now());
            let first_ward = agenda.wards.first_due();
            if first_ward.is_some_and(|due| due <= clock_now) {
                return Task::Tend(agenda.wards.due(after(clock_now, self.together())));
            }
            if let Some(deadline) = agenda.stop
                && (agenda.releases.len() == 0 || deadline <= now)
            {
                let given_up = agenda.releases.len();
                return Task::Stop { given_up };
            }
            if let Some(release) = agenda.releases.take_due(now) {
                return Task::Release(release);
            }
            if next_round <= now {
                return Task::Round;
            }
            let ward = first_ward.map(|due| after(now, due.saturating_duration_since(clock_now)));
            let release = agenda.releases.first_due();
            let dues = [ward, release, agenda.stop].into_iter().flatten();
            let wakes = dues.fold(next_round, Instant::min);
            agenda.wakes = Some(wakes);
            self.changed.wait_until(&mut agenda, wakes);
        }
    }

    /// Looks after leases: renews those of a node together.
    fn tend(&self, leases: Vec<Due>) {
        let horizon = after(self.clock.now(), self.together());
        let mut renewals: BTreeMap<NodeId, Vec<Due>> = BTreeMap::new();
        for (number, lease) in leases {
            match Arc::clone(&lease).need(horizon) {
                Need::Nothing => self.agenda.lock().wards.dismiss(number),
                Need::Later(due) => self.agenda.lock().wards.plan(number, due),
                Need::Look => self.look(number, &*lease),
                Need::Renewal => {
                    renewals
                        .entry(lease.node())
                        .or_default()
                        .push((number, lease));
                }
            }
        }
        for leases in renewals.values() {
            self.renew(leases);
        }
    }

    fn renew(&self, leases: &[Due]) {
        let names: Vec<_> = leases.iter().map(|(_, lease)| lease.name()).collect();
        let sent = self.clock.now();
        let answers = self
            .store
            .renew_many(&names, self.settings.ttl, self.budget());
        for ((number, lease), answer) in leases.iter().zip(answers) {
            let due = lease.renewed(sent, answer);
            self.agenda.lock().wards.plan(*number, due);
        }
    }

    fn look(&self, number: u64, lease: &dyn Ward) {
        lease.seen(self.store.holder(&lease.name().0, self.budget()));
        let now = self.clock.now();
        self.agenda.lock().wards.plan(number, now);
    }

    fn warn_of_long_holds(&self) {
        if self.settings.auto_renew {
            return;
        }
        let ttl = self.settings.ttl.get();
        for (slot, token, held_for) in self.gates.long_held(self.clock.now(), ttl / 5 * 4) {
            log::warn!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?}: the lease {token:?} has been held for {held_for:?} of its TTL of \
                 {ttl:?}; raise `lease_ttl` or renew it"
            );
        }
    }

    fn release(&self, mut release: PendingRelease) {
        let (slot, token) = (&release.slot, &release.token);
        let answer = self.store.release(slot, token, self.budget());
        let now = Instant::now();
        let Err(error) = answer else {
            self.gates.nudge(slot);
            return log::debug!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?} is freed of {token:?} in the background"
            );
        };
        if release.give_up.is_some_and(|give_up| give_up <= now) && !self.store.in_doubt(token) {
            return log::warn!(
                target: crate::LOG_TARGET,
                "sandbox slot {slot:?}: its release is given up, the TTL has passed: {error}"
            );
        }
        log::debug!(
            target: crate::LOG_TARGET,
            "sandbox slot {slot:?}: its release failed again: {error}"
        );
        let due = after(now, release.backoff.next_pause());
        self.agenda.lock().releases.add(due, release);
    }
}
