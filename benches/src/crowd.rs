//! Many threads at one slot, or at one each.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{GuardError, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::guards::{self, section};
use crate::samples::{Turn, nanos};
use guard_store_tests::monitor::Monitor;

/// Runs `threads` threads, each of which makes its work with `make` and then does it `times` times; answers how
/// long the work of all took.
pub fn together<W: FnMut()>(
    threads: usize,
    times: usize,
    make: impl Fn(usize) -> W + Sync,
) -> Duration {
    let ready = Barrier::new(threads + 1);
    let (ready, make) = (&ready, &make);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    let mut work = make(number);
                    ready.wait();
                    for _ in 0..times {
                        work();
                    }
                })
            })
            .collect();
        // Before the threads are let go: on few cores they may be done before this one runs again.
        let before = Instant::now();
        ready.wait();
        for thread in running {
            thread.join().unwrap();
        }
        before.elapsed()
    })
}

/// Nanoseconds of wall time for each of all these works.
pub fn each_together<'a, W: FnMut()>(
    threads: usize,
    times: usize,
    make: impl Fn(usize) -> W + Sync + 'a,
) -> Turn<'a> {
    Box::new(move || nanos(together(threads, times, &make)) / (threads * times) as f64)
}

/// `sections` sections on one slot by so many threads; answers how long all took.
pub fn contended(guard: &impl SandboxExecutionGuard, threads: usize, sections: usize) -> Duration {
    together(threads, sections / threads, |_| section(guard, "a"))
}

/// Threads wait in vain for a slot that somebody else holds; answers how many commands that caused.
#[must_use]
pub fn waiting(server: &RedisServer, waiters: usize, time: Duration) -> u64 {
    let guard = guards::redis(server).build().unwrap();
    let key = guards::key("foreign");
    server.cli(&["SET", guard.slot(&key).as_str(), "foreign"]);
    let monitor = Monitor::start(server);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for _ in 0..waiters {
            scope.spawn(|| {
                let outcome = guard.try_enter_until(&key, end);
                assert!(matches!(outcome, Err(GuardError::TimedOut { .. })));
            });
        }
    });
    monitor.stop().len() as u64
}
