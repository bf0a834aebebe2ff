//! Who may use one of a few things next: who has waited longest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// A number of permits, which go to those who ask for one in the order in which they do.
pub(crate) struct Semaphore {
    /// Protects how many are free, and who waits.
    state: Mutex<State>,
}

struct State {
    /// None of these while somebody waits.
    free: u32,
    waiting: VecDeque<Arc<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// Whether its turn has come. Changed under the lock.
    called: AtomicBool,
    changed: Condvar,
}

/// The right to use one of the things, until it is dropped.
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) const fn new(free: u32) -> Self {
        Self {
            state: Mutex::new(State {
                free,
                waiting: VecDeque::new(),
            }),
        }
    }

    /// Waits for a permit; `None` if it has not come at the deadline.
    pub(crate) fn acquire(&self, deadline: Instant) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return Some(Permit(self));
        }
        let own = Arc::<Waiting>::default();
        state.waiting.push_back(Arc::clone(&own));
        loop {
            let over = own.changed.wait_until(&mut state, deadline).timed_out();
            if own.called.load(Ordering::Relaxed) {
                return Some(Permit(self));
            }
            if over {
                state.waiting.retain(|other| !Arc::ptr_eq(other, &own));
                return None;
            }
        }
    }
}

impl Drop for Permit<'_> {
    /// Goes to the first who waits, past whom nobody gets.
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let Some(next) = state.waiting.pop_front() else {
            state.free += 1;
            return;
        };
        next.called.store(true, Ordering::Relaxed);
        drop(state);
        next.changed.notify_one();
    }
}
