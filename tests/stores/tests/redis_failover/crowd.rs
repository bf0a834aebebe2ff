//! Threads that use leases all the time, and what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually};
use guard_redis::{FencingToken, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease};
use parking_lot::Mutex;

use crate::key;

/// How long a lease is used.
const WORK: Duration = Duration::from_millis(2);

/// Threads that enter some slots in turn.
pub(crate) struct Crowd {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

struct Seen {
    names: Vec<String>,
    stop: AtomicBool,
    slots: Vec<Mutex<Slot>>,
    overlaps: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Slot {
    /// The leases in use.
    leases: Vec<Arc<SandboxLease>>,
    last_number: Option<FencingToken>,
    entries: usize,
    last_entry: Option<Instant>,
}

/// What a crowd saw in the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Pairs of leases of a slot that were valid at once, or had numbers in the wrong order.
    pub(crate) overlaps: usize,
    /// Entries that ended with an error.
    pub(crate) failures: Vec<String>,
}

impl Summary {
    /// Nothing went wrong.
    pub(crate) const GOOD: Self = Self {
        overlaps: 0,
        failures: Vec::new(),
    };
}

impl Crowd {
    /// Starts `threads` threads, each on one of the guards in turn.
    pub(crate) fn start(
        guards: &[RedisSandboxExecutionGuard],
        names: Vec<String>,
        threads: usize,
    ) -> Self {
        let seen = Arc::new(Seen {
            stop: AtomicBool::new(false),
            slots: names.iter().map(|_| Mutex::default()).collect(),
            names,
            overlaps: AtomicUsize::new(0),
            failures: Mutex::default(),
        });
        let guards = guards.iter().cycle().take(threads);
        let start = |(number, guard): (usize, &RedisSandboxExecutionGuard)| {
            let (seen, guard) = (Arc::clone(&seen), guard.clone());
            thread::spawn(move || seen.work(&guard, number))
        };
        let threads = guards.enumerate().map(start).collect();
        let this = Self { seen, threads };
        this.wait_for_entries(Instant::now());
        this
    }

    /// Waits until some slot was entered after `since`; answers how long after it.
    pub(crate) fn wait_for_an_entry(&self, since: Instant) -> Duration {
        eventually("a slot is entered", || {
            self.assert_no_failures();
            let entered = |slot: &Mutex<Slot>| slot.lock().last_entry.is_some_and(|it| it > since);
            self.seen.slots.iter().any(entered)
        });
        since.elapsed()
    }

    /// Waits until each slot was entered after `since`; answers how long after it the last one was.
    pub(crate) fn wait_for_entries(&self, since: Instant) -> Duration {
        eventually("each slot is entered", || {
            self.assert_no_failures();
            let entered = |slot: &Mutex<Slot>| slot.lock().last_entry.is_some_and(|it| it > since);
            self.seen.slots.iter().all(entered)
        });
        since.elapsed()
    }

    fn assert_no_failures(&self) {
        let failures = self.seen.failures.lock();
        assert!(failures.is_empty(), "{failures:?}");
    }

    pub(crate) fn entries(&self) -> usize {
        self.seen.slots.iter().map(|slot| slot.lock().entries).sum()
    }

    /// Lets the threads end: none may be stuck.
    pub(crate) fn finish(self) -> Summary {
        self.seen.stop.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        for thread in self.threads {
            while !thread.is_finished() {
                assert!(Instant::now() < deadline, "a thread is stuck");
                thread::sleep(Duration::from_millis(5));
            }
            thread.join().unwrap();
        }
        Summary {
            overlaps: self.seen.overlaps.load(Ordering::Relaxed),
            failures: std::mem::take(&mut self.seen.failures.lock()),
        }
    }
}

impl Seen {
    fn work(&self, guard: &RedisSandboxExecutionGuard, first: usize) {
        for turn in first.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let index = turn % self.names.len();
            match guard.try_enter(&key(&self.names[index])) {
                Ok(lease) => self.use_lease(index, lease),
                Err(error) => self.failures.lock().push(format!("{error:?}")),
            }
        }
    }

    fn use_lease(&self, index: usize, lease: SandboxLease) {
        let lease = Arc::new(lease);
        let mut slot = self.slots[index].lock();
        if lease.is_held() {
            let others = slot.leases.iter().filter(|other| other.is_held());
            let out_of_order = lease.fencing_token() <= slot.last_number;
            let wrong =
                others.count() + usize::from(lease.fencing_token().is_some() && out_of_order);
            self.overlaps.fetch_add(wrong, Ordering::Relaxed);
            slot.last_number = lease.fencing_token();
        }
        slot.leases.push(Arc::clone(&lease));
        slot.entries += 1;
        slot.last_entry = Some(Instant::now());
        drop(slot);
        thread::sleep(WORK);
        let mut slot = self.slots[index].lock();
        slot.leases.retain(|other| !Arc::ptr_eq(other, &lease));
        drop(slot);
        lease.close();
    }
}
