//! More threads than connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{connections_so_far, key};

const THREADS: usize = 120;
const POOL: u32 = 8;
/// Each way.
const DELAY: Duration = Duration::from_millis(10);
const SPAN: Duration = Duration::from_secs(6);

/// How many sections all threads do in the span, each on slots of its own, and how many connections that takes.
fn sections(operation_timeout: Duration) -> (usize, usize) {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = RedisSandboxExecutionGuard::builder(proxy.url())
        .operation_timeout(operation_timeout)
        .pool_size(POOL)
        .wakeups(Wakeups::Polling)
        .build()
        .unwrap();
    proxy.delay(DELAY);
    let sections = AtomicUsize::new(0);
    let end = Instant::now() + SPAN;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (guard, sections) = (&guard, &sections);
            scope.spawn(move || {
                for section in 0.. {
                    if Instant::now() > end {
                        return;
                    }
                    let slot = key(&format!("{thread}-{section}"));
                    if let Ok(lease) = guard.try_enter_for(&slot, SPAN) {
                        lease.close();
                        sections.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    (sections.into_inner(), connections_so_far(&server))
}

#[test]
fn who_waits_for_a_connection_costs_the_others_none() {
    let (patient, _) = sections(Duration::from_secs(2));
    let (hasty, connections) = sections(Duration::from_millis(200));
    println!("{patient} sections, hasty {hasty} over {connections} connections");
    assert!(hasty * 10 > patient * 6, "{hasty} of {patient}");
    assert!(connections < 100, "{connections}");
}
