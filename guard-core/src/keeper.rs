//! The keeper: one thread of a guard that finishes what nobody waits for.
//!
//! It goes on with releases that could not be made at once, and notices when a lease that somebody wants
//! to hear of has expired. It never runs user code.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::slot::SlotName;
use crate::store::LeaseStore;
use crate::token::LeaseToken;
use crate::ttl::{Budget, after};
use crate::worker::Worker;

const THREAD_NAME: &str = "guard-keeper";

/// A lease that expires.
pub(crate) trait Mortal: Send + Sync {
    /// Notices an expiry; answers when to look again, if the lease is still held.
    fn look(&self) -> Option<Instant>;
}

/// A slot to be freed of tokens, until they can no longer hold it. The order matters: while a command that
/// passes the slot from one token to another may still take effect, freeing the other first achieves nothing.
struct PendingRelease {
    slot: SlotName,
    tokens: VecDeque<LeaseToken>,
    give_up: Instant,
    backoff: Backoff,
}

/// What the keeper has to do, ordered by when; the number keeps apart what is due together.
#[derive(Default)]
struct Agenda {
    number: u64,
    /// Due by real time.
    releases: BTreeMap<(Instant, u64), PendingRelease>,
    /// Due by the guard's clock.
    expiries: BTreeMap<(Instant, u64), Weak<dyn Mortal>>,
    /// When to give up what is left; set when the guard is gone.
    stop: Option<Instant>,
}

impl Agenda {
    /// Adds a release, before what is pending for its slot already.
    fn add_release(&mut self, due: Instant, mut release: PendingRelease) {
        if let Some(key) = self.pending(&release.slot)
            && let Some(other) = self.releases.remove(&key)
        {
            release.tokens.extend(other.tokens);
            release.give_up = release.give_up.max(other.give_up);
        }
        self.number += 1;
        self.releases.insert((due, self.number), release);
    }

    /// Adds a token to what is pending for its slot, or answers that nothing is.
    fn append(&mut self, slot: &SlotName, token: &LeaseToken, give_up: Instant) -> bool {
        let key = self.pending(slot);
        let Some(release) = key.and_then(|key| self.releases.get_mut(&key)) else {
            return false;
        };
        release.tokens.push_back(token.clone());
        release.give_up = release.give_up.max(give_up);
        true
    }

    fn pending(&self, slot: &SlotName) -> Option<(Instant, u64)> {
        let mut releases = self.releases.iter();
        releases.find_map(|(key, release)| (release.slot == *slot).then_some(*key))
    }

    fn add_expiry(&mut self, due: Instant, lease: Weak<dyn Mortal>) {
        self.number += 1;
        self.expiries.insert((due, self.number), lease);
    }
}

struct Shared {
    /// Protects what is to be done. The work itself is done with the lock free.
    agenda: Mutex<Agenda>,
    changed: Condvar,
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    operation_timeout: Duration,
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
        operation_timeout: Duration,
    ) -> Result<Self, io::Error> {
        let shared = Arc::new(Shared {
            agenda: Mutex::default(),
            changed: Condvar::new(),
            store,
            clock,
            operation_timeout,
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

    /// Frees `slot` of `token` in the background, for as long as a lease of `ttl` might hold it. Releases of
    /// one slot are done in the order in which they are given.
    pub(crate) fn release_later(&self, slot: &SlotName, token: LeaseToken, ttl: Duration) {
        let now = Instant::now();
        let give_up = after(now, ttl);
        let mut agenda = self.shared.agenda.lock();
        if !agenda.append(slot, &token, give_up) {
            let release = PendingRelease {
                slot: slot.clone(),
                tokens: VecDeque::from([token]),
                give_up,
                backoff: Backoff::default(),
            };
            agenda.add_release(now, release);
        }
        drop(agenda);
        self.shared.changed.notify_one();
    }

    /// Looks at a lease when it is due.
    pub(crate) fn look_later(&self, due: Instant, lease: Weak<dyn Mortal>) {
        self.shared.agenda.lock().add_expiry(due, lease);
        self.shared.changed.notify_one();
    }

    /// Lets the keeper finish; releases that are left at `deadline` are given up.
    pub(crate) fn stop(&self, deadline: Instant) -> Option<Worker> {
        self.shared.agenda.lock().stop = Some(deadline);
        self.shared.changed.notify_one();
        self.worker.lock().take()
    }
}

enum Task {
    Release(PendingRelease),
    Look(Weak<dyn Mortal>),
    Stop { given_up: usize },
}

impl Shared {
    fn work(&self) {
        loop {
            match self.next_task() {
                Task::Release(release) => self.release(release),
                Task::Look(lease) => self.look(&lease),
                Task::Stop { given_up } => {
                    if given_up > 0 {
                        log::warn!(
                            target: crate::LOG_TARGET,
                            "{given_up} sandbox slots could not be released before the guard ended; \
                             they come free when their TTL ends"
                        );
                    }
                    return;
                }
            }
        }
    }

    fn next_task(&self) -> Task {
        let mut agenda = self.agenda.lock();
        loop {
            let (now, clock_now) = (Instant::now(), self.clock.now());
            if let Some(entry) = agenda.expiries.first_entry()
                && entry.key().0 <= clock_now
            {
                return Task::Look(entry.remove());
            }
            if let Some(deadline) = agenda.stop
                && (agenda.releases.is_empty() || deadline <= now)
            {
                let given_up = agenda.releases.len();
                return Task::Stop { given_up };
            }
            if let Some(entry) = agenda.releases.first_entry()
                && entry.key().0 <= now
            {
                return Task::Release(entry.remove());
            }
            let expiry = agenda
                .expiries
                .first_key_value()
                .map(|((due, _), _)| after(now, due.saturating_duration_since(clock_now)));
            let release = agenda.releases.first_key_value().map(|((due, _), _)| *due);
            match [expiry, release, agenda.stop].into_iter().flatten().min() {
                Some(due) => {
                    self.changed.wait_until(&mut agenda, due);
                }
                None => self.changed.wait(&mut agenda),
            }
        }
    }

    fn look(&self, lease: &Weak<dyn Mortal>) {
        let due = lease.upgrade().and_then(|strong| strong.look());
        if let Some(due) = due {
            self.agenda.lock().add_expiry(due, Weak::clone(lease));
        }
    }

    fn release(&self, mut release: PendingRelease) {
        let Some(token) = release.tokens.front() else {
            return;
        };
        let budget = Budget::new(self.operation_timeout);
        let due = match self.store.release(&release.slot, token, budget) {
            Ok(_) => {
                log::debug!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?} is freed of {token:?} in the background", release.slot
                );
                release.tokens.pop_front();
                release.backoff = Backoff::default();
                Instant::now()
            }
            Err(error) if Instant::now() >= release.give_up => {
                log::warn!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: its release is given up, the TTL has passed: {error}", release.slot
                );
                return;
            }
            Err(error) => {
                log::debug!(
                    target: crate::LOG_TARGET,
                    "sandbox slot {:?}: its release failed again: {error}", release.slot
                );
                after(Instant::now(), release.backoff.next_pause())
            }
        };
        if !release.tokens.is_empty() {
            self.agenda.lock().add_release(due, release);
        }
    }
}
