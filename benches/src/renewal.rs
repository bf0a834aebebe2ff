//! Many leases that are renewed.

use std::thread;
use std::time::{Duration, Instant};

use guard_core::{SandboxExecutionGuard, SandboxLease};
use guard_store_tests::redis_server::RedisServer;
use rustix::time::{ClockId, clock_gettime};

use crate::guards;
use guard_store_tests::monitor::Monitor;

/// A third of the TTL and more: every lease is renewed at least once.
const WATCHED: Duration = Duration::from_secs(12);
/// Each lease is looked at once soon after it was entered, and then at a third of the TTL.
const SETTLING: Duration = Duration::from_secs(1);

/// What renewal costs a second.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Commands of the client.
    pub commands: f64,
    /// Nanoseconds of processor time of this process.
    pub processor_ns: f64,
}

/// Holds so many leases for a while, all renewed by their guard; answers what that costs a second.
#[must_use]
pub fn of_leases(server: &RedisServer, number: usize) -> Cost {
    let guard = guards::redis(server).auto_renew(true).build().unwrap();
    let enter = |number| guard.try_enter(&guards::key(&format!("renewed-{number}")));
    let leases: Vec<_> = (0..number).map(|number| enter(number).unwrap()).collect();
    thread::sleep(SETTLING);
    let monitor = Monitor::start(server);
    let (start, processor) = (Instant::now(), processor_time());
    thread::sleep(WATCHED);
    let seconds = start.elapsed().as_secs_f64();
    let processor = processor_time() - processor;
    let commands = monitor.stop().len();
    assert!(leases.iter().all(SandboxLease::is_held), "a lease was lost");
    Cost {
        commands: commands as f64 / seconds,
        processor_ns: processor as f64 / seconds,
    }
}

fn processor_time() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
