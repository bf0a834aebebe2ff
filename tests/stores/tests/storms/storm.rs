//! Everything at random, from many threads.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually, together};
use guard_core::{GuardError, Interrupt, SandboxExecutionGuard, Wait};
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;

use crate::{Guard, SEED, STUCK, key, memory_guards, micros, redis_guards, spin};

/// A slot's inside, which only its holder may touch.
#[derive(Default)]
struct Inside {
    owner: AtomicUsize,
    /// Read and written in two steps: an update is lost if two do it at once.
    visits: AtomicU32,
    counted: AtomicU32,
}

impl Inside {
    fn visit(&self, me: usize, time: Duration) {
        assert_eq!(
            self.owner.swap(me + 1, Ordering::SeqCst),
            0,
            "somebody else is inside"
        );
        let visits = self.visits.load(Ordering::Relaxed);
        spin(time);
        self.visits.store(visits + 1, Ordering::Relaxed);
        assert_eq!(
            self.owner.swap(0, Ordering::SeqCst),
            me + 1,
            "somebody else came in"
        );
        self.counted.fetch_add(1, Ordering::Relaxed);
    }
}

/// 10,000 random steps of 8 threads on 4 slots.
fn storm(guards: &[Guard; 2]) {
    const THREADS: usize = 8;
    const STEPS: u32 = 10_000;
    let seed = Random::seed(SEED);
    let keys = ["a", "b", "c", "d"].map(key);
    let insides = [(); 4].map(|()| Inside::default());
    let handles = [(); THREADS].map(|()| Interrupt::new());
    let steps = AtomicU32::new(0);
    let running = AtomicUsize::new(THREADS);
    let work = |me: usize| {
        if me == THREADS {
            return watch_over(&running);
        }
        let _running = Running(&running);
        let mut random = Random::new(seed.wrapping_add(me as u64));
        while steps.fetch_add(1, Ordering::Relaxed) < STEPS {
            let slot = random.below(4) as usize;
            let guard = &guards[random.below(2) as usize];
            let wait = match random.below(4) {
                0 => Wait::forever(),
                1 => Wait::not_at_all(),
                _ => Wait::at_most(micros(&mut random, 3_000)),
            };
            match guard.enter(&keys[slot], wait.interruptible_by(&handles[me])) {
                Ok(lease) => {
                    insides[slot].visit(me, micros(&mut random, 100));
                    lease.close();
                }
                Err(GuardError::TimedOut { .. } | GuardError::Interrupted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if random.below(3) == 0 {
                handles[random.below(THREADS as u64) as usize].interrupt();
            }
        }
    };
    together(THREADS + 1, work);
    for (inside, key) in insides.iter().zip(&keys) {
        assert_eq!(
            inside.visits.load(Ordering::SeqCst),
            inside.counted.load(Ordering::SeqCst)
        );
        // A grant that an interrupt turned away may still be given back in the background.
        drop(
            guards[0]
                .try_enter_for(key, PATIENCE)
                .expect("the slot is free"),
        );
        eventually("nobody holds the slot", || {
            guards[1].holder(key).unwrap().is_none()
        });
    }
}

/// Counts a thread until it ends, by a panic too.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Gives up on a storm that does not end: a thread is stuck.
fn watch_over(running: &AtomicUsize) {
    let started = Instant::now();
    while running.load(Ordering::SeqCst) > 0 {
        if started.elapsed() > STUCK {
            // The threads that are stuck would keep a panic from ending the test.
            eprintln!("a thread of the storm is stuck");
            std::process::abort();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_storm_leaves_every_slot_free_in_memory() {
    storm(&memory_guards());
}

#[test]
fn a_storm_leaves_every_slot_free_in_redis() {
    let server = RedisServer::start();
    storm(&redis_guards(&server));
}
