//! Waiting in the database: a few threads, each of which blocks in a lock call for one slot.
//!
//! A slot that somebody watches goes through these phases: polled (no thread for it), asking (a thread opens
//! its session), blocked (in the lock call), won (the session holds the lock until the waiter claims it). When
//! the last watch of a slot ends, so does its waiting: a blocked session is ended from another one, a lock that
//! was won is freed, before the watch is gone. So an entry that has returned leaves no lock behind, unless its time
//! did not suffice: then its session ends by itself at the end of its slice, or is ended by whoever wants the slot.

mod working;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{Budget, LOG_TARGET, Registration, SlotMap, SlotName, Subscriber, Watch};
use parking_lot::{Condvar, Mutex};

use crate::ghosts::Whose;
use crate::leases::Leases;
use crate::links::Links;
use crate::process::Process;
use crate::session::{Database, Session as _, SessionId};
use working::Working;

const THREAD_NAME: &str = "guard-wait";
/// How long a lock that was won is kept for a waiter that was woken and does not come.
const CLAIM_WITHIN: Duration = Duration::from_secs(1);
/// How long a slot is polled after a thread for it could not be started or its session failed, doubled each time in a
/// row, …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … so often at most.
const LONGEST_ROW: u32 = 8;

/// How long threads may take to leave by themselves at the end.
const LEAVE_WITHIN: Duration = Duration::from_millis(100);

/// The slots that are waited for.
pub(crate) struct Waits<D: Database> {
    links: Arc<Links<D>>,
    leases: Arc<Leases<D::Session>>,
    limit: usize,
    /// Protects who waits for what, and where that stands. Statements are sent, subscribers called and sessions
    /// closed with the lock free.
    state: Mutex<State<D::Session>>,
    /// A lock that was won is claimed or given up, or a thread has ended.
    changed: Condvar,
}

struct State<S> {
    /// Numbers watches and waiting threads.
    number: u64,
    slots: SlotMap<Wait<S>>,
    threads: usize,
    stopped: bool,
}

/// A slot that somebody waits for.
struct Wait<S> {
    subscribers: Vec<(u64, Subscriber)>,
    phase: Phase<S>,
    /// How often in a row waiting for it in the database has failed, and until when that is not tried again.
    failures: u32,
    paused: Option<Instant>,
}

impl<S> Wait<S> {
    fn pause(&mut self) {
        let pause = FIRST_PAUSE * (1 << self.failures.min(LONGEST_ROW));
        self.failures = self.failures.saturating_add(1);
        self.paused = Some(Instant::now() + pause);
    }

    fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| Instant::now() < until)
    }
}

/// Where the waiting for a slot stands, and the number of its thread.
enum Phase<S> {
    Polled,
    Asking(u64),
    Blocked(u64, SessionId),
    Won(u64, S),
}

impl<S> Phase<S> {
    const fn thread(&self) -> Option<u64> {
        match self {
            Self::Polled => None,
            Self::Asking(thread) | Self::Blocked(thread, _) | Self::Won(thread, _) => Some(*thread),
        }
    }
}

impl<S> State<S> {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// The slot's wait, if it is still that of `thread`.
    fn of(&mut self, slot: &SlotName, thread: u64) -> Option<&mut Wait<S>> {
        let wait = self.slots.get_mut(slot)?;
        (wait.phase.thread() == Some(thread)).then_some(wait)
    }
}

impl<D: Database> Waits<D> {
    pub(crate) fn new(
        links: Arc<Links<D>>,
        leases: Arc<Leases<D::Session>>,
        limit: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            links,
            leases,
            limit,
            state: Mutex::new(State {
                number: 0,
                slots: SlotMap::default(),
                threads: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Wakes `subscriber` when the slot has been won, until the answer is dropped.
    pub(crate) fn watch(self: &Arc<Self>, slot: &SlotName, subscriber: &Subscriber) -> Watch {
        let number = {
            let mut state = self.state.lock();
            let number = state.next_number();
            let wait = state.slots.entry(slot.clone()).or_insert_with(|| Wait {
                subscribers: Vec::new(),
                phase: Phase::Polled,
                failures: 0,
                paused: None,
            });
            wait.subscribers.push((number, subscriber.clone()));
            number
        };
        self.ask(slot);
        Watch::new(Interest {
            waits: Arc::clone(self),
            slot: slot.clone(),
            number,
            process: Process::this(),
        })
    }

    /// Gives a slot that is held to a thread, if somebody waits for it and there is one. A slot that a lease of
    /// this store holds needs none: its end is known here.
    pub(crate) fn ask(self: &Arc<Self>, slot: &SlotName) {
        if self.leases.holds(slot) {
            return;
        }
        let thread = {
            let mut state = self.state.lock();
            if state.stopped || state.threads >= self.limit {
                return;
            }
            let thread = state.next_number();
            match state.slots.get_mut(slot) {
                Some(wait) if matches!(wait.phase, Phase::Polled) && !wait.is_paused() => {
                    wait.phase = Phase::Asking(thread);
                }
                _ => return,
            }
            state.threads += 1;
            thread
        };
        let mut working = Working {
            waits: Arc::clone(self),
            slot: slot.clone(),
            thread,
            session: None,
            worked: false,
        };
        // A thread that cannot be started drops it too.
        let started = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || working.run());
        if let Err(error) = started {
            log::warn!(target: LOG_TARGET, "no thread to wait for sandbox slot {slot:?}: {error}");
        }
    }

    /// Whether a session of this store is in the slot's queue at the server, so that asking for the slot on
    /// another one is in vain.
    pub(crate) fn is_blocked(&self, slot: &SlotName) -> bool {
        let state = self.state.lock();
        let wait = state.slots.get(slot);
        wait.is_some_and(|wait| matches!(wait.phase, Phase::Blocked(..)))
    }

    /// Takes the session that has won the slot, if there is one.
    pub(crate) fn claim(&self, slot: &SlotName) -> Option<D::Session> {
        let mut state = self.state.lock();
        let wait = state.slots.get_mut(slot)?;
        if !matches!(wait.phase, Phase::Won(..)) {
            return None;
        }
        let phase = std::mem::replace(&mut wait.phase, Phase::Polled);
        drop(state);
        self.changed.notify_all();
        match phase {
            Phase::Won(_, session) => Some(session),
            _ => None,
        }
    }

    /// Notes that the session is about to block; answers whether somebody still waits.
    fn block(&self, slot: &SlotName, thread: u64, session: &SessionId) -> bool {
        let mut state = self.state.lock();
        match state.of(slot, thread) {
            Some(wait) => {
                wait.phase = Phase::Blocked(thread, session.clone());
                true
            }
            None => false,
        }
    }

    /// Keeps a session that got the lock for whoever waits, and wakes them. Answers the session if nobody came.
    fn offer(&self, slot: &SlotName, thread: u64, session: D::Session) -> Option<D::Session> {
        let mut state = self.state.lock();
        let Some(wait) = state.of(slot, thread) else {
            drop(state);
            // The waiting has ended, and with it, at the server, this session.
            drop(session);
            return None;
        };
        wait.phase = Phase::Won(thread, session);
        let subscribers = wait.subscribers.clone();
        drop(state);
        for (_, subscriber) in subscribers {
            subscriber.wake();
        }
        let deadline = Instant::now() + CLAIM_WITHIN;
        let mut state = self.state.lock();
        loop {
            let wait = state.of(slot, thread)?;
            if Instant::now() < deadline {
                self.changed.wait_until(&mut state, deadline);
                continue;
            }
            return match std::mem::replace(&mut wait.phase, Phase::Asking(thread)) {
                Phase::Won(_, session) => Some(session),
                _ => None,
            };
        }
    }

    /// The thread ends: if the slot is still its own, it is polled from now on; for a while, if it has not `worked`.
    fn leave(&self, slot: &SlotName, thread: u64, worked: bool) {
        let mut state = self.state.lock();
        state.threads -= 1;
        let (phase, subscribers) = match state.of(slot, thread) {
            Some(wait) => {
                if worked {
                    wait.failures = 0;
                } else {
                    wait.pause();
                }
                let phase = std::mem::replace(&mut wait.phase, Phase::Polled);
                (phase, wait.subscribers.clone())
            }
            None => (Phase::Polled, Vec::new()),
        };
        drop(state);
        drop(phase);
        self.changed.notify_all();
        for (_, subscriber) in subscribers {
            subscriber.wake();
        }
    }

    /// Ends a waiting that nobody wants any more.
    fn end(&self, slot: &SlotName, phase: Phase<D::Session>, budget: Budget) {
        self.changed.notify_all();
        match phase {
            // A thread that is asking finds out before it blocks.
            Phase::Polled | Phase::Asking(_) => {}
            Phase::Won(_, mut session) => match session.unlock(slot, budget) {
                Ok(_) => self.links.keep(session),
                Err(_) => self.end_session(slot, session.id().clone(), budget),
            },
            Phase::Blocked(_, session) => self.end_session(slot, session, budget),
        }
    }

    /// Ends a session from another one; one that cannot be ended now is when another operation can.
    fn end_session(&self, slot: &SlotName, session: SessionId, budget: Budget) {
        let ghosts = &self.links.ghosts;
        ghosts.add(session, slot, None);
        let settle = |session: &mut D::Session| ghosts.settle(session, Whose::Slot(slot), budget);
        match self.links.operate(budget, None, settle) {
            Ok((_, link)) => link.give_back(),
            Err(error) => log::debug!(
                target: LOG_TARGET,
                "a session that waited could not be ended yet: {error}"
            ),
        }
    }

    /// Waits for the threads; answers whether they have ended.
    fn left_by(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.threads > 0 {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.threads == 0
    }

    /// Ends all waiting, and waits for the threads, within the budget.
    pub(crate) fn stop(&self, budget: Budget) {
        let waits = {
            let mut state = self.state.lock();
            state.stopped = true;
            std::mem::take(&mut state.slots)
        };
        let mut left = waits.len();
        for (slot, wait) in waits {
            // A session that does not end leaves the others their share.
            let share = budget.remaining() / u32::try_from(left).unwrap_or(u32::MAX).max(1);
            self.end(&slot, wait.phase, Budget::new(share));
            left -= 1;
        }
        // Those whose session has been ended are about to leave; one whose server does not answer would stay.
        if !self.left_by(Instant::now() + LEAVE_WITHIN) {
            self.links.cut_off();
            self.left_by(budget.deadline());
        }
    }
}

/// One watch of a slot.
struct Interest<D: Database> {
    waits: Arc<Waits<D>>,
    slot: SlotName,
    number: u64,
    process: Process,
}

impl<D: Database> Registration for Interest<D> {
    fn is_healthy(&self) -> bool {
        let state = self.waits.state.lock();
        let wait = state.slots.get(&self.slot);
        let waits = wait.is_some_and(|wait| wait.phase.thread().is_some());
        drop(state);
        waits || self.waits.leases.holds(&self.slot)
    }

    fn end(&mut self, budget: Budget) {
        self.leave(budget);
    }
}

impl<D: Database> Interest<D> {
    /// Does nothing the second time.
    fn leave(&self, budget: Budget) {
        if !self.process.is_this() {
            return;
        }
        let mut state = self.waits.state.lock();
        let Some(wait) = state.slots.get_mut(&self.slot) else {
            return;
        };
        wait.subscribers
            .retain(|(number, _)| *number != self.number);
        if !wait.subscribers.is_empty() {
            return;
        }
        let wait = state.slots.remove(&self.slot);
        drop(state);
        if let Some(wait) = wait {
            self.waits.end(&self.slot, wait.phase, budget);
        }
    }
}

impl<D: Database> Drop for Interest<D> {
    fn drop(&mut self) {
        self.leave(Budget::new(self.waits.links.operation_timeout));
    }
}
