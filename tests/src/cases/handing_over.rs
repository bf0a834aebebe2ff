//! Handing the slot over inside a process: who gets it, how often in a row, and that it is never lost.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guard_core::{GuardConfig, GuardError, Interrupt, SandboxLease, Wait};

use super::counting::counting;
use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, PATIENCE, assert_free, enter, key};
use crate::waiting::Waiting;

/// An entry that waits, works for a moment and closes.
fn visit(guard: &Guard, work: Duration) -> Waiting<Result<(), GuardError>> {
    let guard = Arc::clone(guard);
    Waiting::start(move || {
        let _lease = guard.try_enter(&key("a"))?;
        thread::sleep(work);
        Ok(())
    })
}

/// One holder and some that queue: how often was the slot handed over and freed until all had it?
fn counts_of_a_queue(
    backend: &dyn Backend,
    waiters: usize,
    work: Duration,
    change: impl FnOnce(&mut GuardConfig),
) -> [u32; 2] {
    let fixture = Fixture::new(backend);
    let (guard, counts) = counting(&fixture, change);
    let lease = enter(&guard, &key("a"));
    let visits: Vec<_> = (0..waiters).map(|_| visit(&guard, work)).collect();
    lease.close();
    for visit in visits {
        visit.result().unwrap();
    }
    assert_free(&fixture.guard(), &key("a"));
    counts.now()
}

/// The slot goes from thread to thread in one step each, and is never free in between.
pub(crate) fn a_closed_slot_is_handed_to_the_next_thread(backend: &dyn Backend) {
    let counts = counts_of_a_queue(backend, 4, Duration::ZERO, |_| {});
    assert_eq!(counts, [4, 1]);
}

/// After so many hand-overs the slot is truly freed.
pub(crate) fn a_row_ends_after_so_many_hand_overs(backend: &dyn Backend) {
    let counts = counts_of_a_queue(backend, 5, Duration::ZERO, |config| {
        config.max_hand_overs = 2
    });
    assert_eq!(counts, [4, 2]);
}

/// And after so long a time, counted from the first hand-over.
pub(crate) fn a_row_ends_after_its_time(backend: &dyn Backend) {
    let counts = counts_of_a_queue(backend, 3, Duration::from_millis(20), |config| {
        config.max_hand_over_time = Duration::from_millis(10);
    });
    assert_eq!(counts, [2, 2]);
}

/// Zero switches it off.
pub(crate) fn without_hand_over_every_thread_takes_the_slot_itself(backend: &dyn Backend) {
    let counts = counts_of_a_queue(backend, 3, Duration::ZERO, |config| {
        config.max_hand_overs = 0
    });
    assert_eq!(counts, [0, 4]);
}

/// A lease that was handed over is one of its own.
pub(crate) fn a_lease_that_was_handed_over_has_its_own_token_and_time(backend: &dyn Backend) {
    let ttl = Duration::from_secs(120);
    let guard = Fixture::new(backend).guard_of(ttl);
    let first = enter(&guard, &key("a"));
    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter(&key("a")).unwrap())
    };
    thread::sleep(Duration::from_millis(50));
    let remaining = first.remaining();
    first.close();
    let second = waiting.result();
    assert!(first.token() != second.token());
    assert!(second.is_held() && second.remaining() > remaining);
    assert!(second.renew().is_ok() && !first.is_held());
    if backend.capabilities().fencing {
        assert!(second.fencing_token() > first.fencing_token());
    }
}

/// First come, first served, whether the slot is handed over or freed between two turns.
pub(crate) fn the_order_stays_over_hand_overs_and_releases(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard_with(|config| config.max_hand_overs = 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let lease = enter(&guard, &key("a"));
    let visits: Vec<_> = (0..8)
        .map(|number| {
            let (guard, order) = (Arc::clone(&guard), Arc::clone(&order));
            Waiting::start(move || {
                let _lease = guard.try_enter(&key("a")).unwrap();
                order.lock().unwrap().push(number);
            })
        })
        .collect();
    lease.close();
    for visit in visits {
        visit.result();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

/// Threads that keep a slot busy, one section after the other, until this is dropped.
struct Busy {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sections: AtomicU32,
}

impl Busy {
    fn start(guard: &Guard, threads: usize, work: Duration) -> Self {
        let shared = Arc::<Shared>::default();
        let threads = (0..threads).map(|_| {
            let (guard, shared) = (Arc::clone(guard), Arc::clone(&shared));
            thread::spawn(move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    let _lease = guard.try_enter(&key("a")).unwrap();
                    shared.sections.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(work);
                }
            })
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    /// How many sections there have been.
    fn sections(&self) -> u32 {
        self.shared.sections.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Another process that wants the slot gets it again and again, however busy this one keeps it.
pub(crate) fn a_busy_process_lets_others_have_their_turn(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let settings = |config: &mut GuardConfig| config.retry_interval = Duration::from_millis(500);
    let (here, there) = (fixture.guard_with(settings), fixture.guard_with(settings));
    let busy = Busy::start(&here, 4, Duration::from_millis(2));
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(20));
        let before = busy.sections();
        let lease = there.try_enter_for(&key("a"), PATIENCE).unwrap();
        // At least once a second, in 500 sections or fewer, the slot is left to others for a while. A noisy machine
        // may keep them from some of these moments.
        let meanwhile = busy.sections() - before;
        assert!(meanwhile < 5 * 500, "after {meanwhile} sections");
        lease.close();
    }
}

/// What becomes of the first in line when it gives up at the moment of the hand-over, and of the second.
fn a_receiver_that_gives_up(backend: &dyn Backend, give_up: impl Fn(u32) -> (Duration, Interrupt)) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard_with(|config| config.retry_interval = 4 * PATIENCE);
    for round in 0..40 {
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        let (patience, handle) = give_up(round);
        let hasty = {
            let (guard, handle) = (Arc::clone(&guard), handle.clone());
            thread::spawn(move || {
                let wait = Wait::at_most(patience).interruptible_by(&handle);
                guard
                    .enter(&key("a"), wait)
                    .map(|lease: SandboxLease| lease.is_held())
            })
        };
        let patient = visit(&guard, Duration::ZERO);
        thread::scope(|scope| {
            scope.spawn(|| handle.interrupt());
            lease.close();
        });
        match hasty.join().unwrap() {
            Ok(held) => assert!(held),
            Err(GuardError::Interrupted { .. } | GuardError::TimedOut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        patient.result().unwrap();
    }
    assert_free(&fixture.guard(), &key("a"));
}

/// Interrupted: the lease goes on to the next.
pub(crate) fn an_interrupted_receiver_passes_the_slot_on(backend: &dyn Backend) {
    a_receiver_that_gives_up(backend, |_| (PATIENCE, Interrupt::new()));
}

/// Out of time: the lease goes on to the next.
pub(crate) fn a_receiver_that_is_out_of_time_passes_the_slot_on(backend: &dyn Backend) {
    // Starting the second one takes a few milliseconds; the rest is before, at and after the close.
    a_receiver_that_gives_up(backend, |round| {
        (
            Duration::from_micros(500 * u64::from(round)),
            Interrupt::new(),
        )
    });
}

/// Panicking: unwinding closes, and closing hands over.
pub(crate) fn a_panicking_receiver_passes_the_slot_on(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let guard = fixture.guard_with(|config| config.retry_interval = 4 * PATIENCE);
    let lease = enter(&guard, &key("a"));
    let panicking = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || {
            let section = AssertUnwindSafe(|| {
                let _lease = guard.try_enter(&key("a")).unwrap();
                // Without the hook's message on the test's output.
                resume_unwind(Box::new("on purpose"));
            });
            assert!(catch_unwind(section).is_err());
        })
    };
    let next = visit(&guard, Duration::ZERO);
    lease.close();
    panicking.result();
    next.result().unwrap();
    assert_free(&fixture.guard(), &key("a"));
}

/// The guard closes while the slot goes from one to the next: each has a lease or an error, and nothing
/// stays behind.
pub(crate) fn closing_the_guard_during_a_hand_over_loses_no_slot(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    for _ in 0..10 {
        let guard = fixture.guard_with(|config| config.retry_interval = 4 * PATIENCE);
        let lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
        let visits: Vec<_> = (0..3).map(|_| visit(&guard, Duration::ZERO)).collect();
        thread::scope(|scope| {
            scope.spawn(|| guard.close());
            lease.close();
        });
        for visit in visits {
            match visit.result() {
                Ok(()) | Err(GuardError::Closed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_free(&fixture.guard(), &key("a"));
    }
}
