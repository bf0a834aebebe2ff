//! One holder a slot at a time, and nobody kept out of another slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use guard_core::{IsolationScope, SandboxIsolationKey};

use crate::backend::Backend;
use crate::fixture::{Fixture, Guard, assert_free, assert_held, enter, key};
use crate::waiting::{Waiting, together};

const THREADS: usize = 16;
const ENTRIES: usize = 200;

/// A sandbox that shows whether two worked in it at once. Nothing in it is ordered or added atomically,
/// so only the guard keeps its count right.
#[derive(Default)]
pub(crate) struct Sandbox {
    occupied: AtomicBool,
    overlaps: AtomicU32,
    updates: AtomicU64,
}

impl Sandbox {
    pub(crate) fn work(&self) {
        if self.occupied.swap(true, Ordering::Relaxed) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        let read = self.updates.load(Ordering::Relaxed);
        thread::yield_now();
        self.updates.store(read + 1, Ordering::Relaxed);
        self.occupied.store(false, Ordering::Relaxed);
    }

    #[track_caller]
    pub(crate) fn assert_exclusive(&self, updates: usize) {
        assert_eq!(self.overlaps.load(Ordering::Relaxed), 0, "two were inside");
        assert_eq!(self.updates.load(Ordering::Relaxed), updates as u64);
    }
}

fn work_under(guards: &[Guard]) {
    let sandbox = Sandbox::default();
    let key = key("busy");
    together(THREADS, |number| {
        let guard = &guards[number % guards.len()];
        for _ in 0..ENTRIES {
            let lease = guard.try_enter(&key).unwrap();
            assert!(lease.is_held());
            sandbox.work();
        }
    });
    sandbox.assert_exclusive(THREADS * ENTRIES);
}

/// 16 threads enter one slot 200 times each; an unprotected counter inside loses nothing.
pub(crate) fn one_holder_at_a_time_under_load(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    work_under(&[fixture.guard()]);
}

/// The same with the threads spread over two guards, as over two processes.
pub(crate) fn one_holder_at_a_time_across_two_guards(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    work_under(&[fixture.guard(), fixture.guard()]);
}

/// A held slot is held for its own guard and for others.
pub(crate) fn a_held_slot_lets_nobody_else_in(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let (here, there) = (fixture.guard(), fixture.guard());
    let lease = enter(&here, &key("a"));
    assert_held(&here, &key("a"));
    assert_held(&there, &key("a"));
    assert!(lease.is_held());
}

/// Neither another value nor the same value in another scope waits for a held slot.
pub(crate) fn different_keys_do_not_block_each_other(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let _a = enter(&guard, &key("a"));
    let _b = enter(&guard, &key("b"));
    let user = SandboxIsolationKey::new(IsolationScope::User, "a").unwrap();
    assert_free(&guard, &user);
    assert_free(&guard, &SandboxIsolationKey::global());
}

/// However many wait for one slot, another one is entered at once.
pub(crate) fn waiters_of_one_slot_do_not_keep_others_from_another(backend: &dyn Backend) {
    let guard = Fixture::new(backend).guard();
    let lease = enter(&guard, &key("busy"));
    let waiting: Vec<_> = (0..THREADS)
        .map(|_| {
            let guard = Arc::clone(&guard);
            Waiting::start(move || guard.try_enter(&key("busy")).map(drop))
        })
        .collect();
    assert_free(&guard, &key("idle"));
    drop(lease);
    for waiting in waiting {
        waiting.result().unwrap();
    }
}
