//! How soon an interrupted wait returns.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_core::{GuardError, Interrupt, SandboxExecutionGuard, Wait};
use guard_store_tests::redis_server::RedisServer;

use crate::{Guard, STUCK, key, memory_guards, redis_guards};

/// How long after its interrupt a wait returns, a thousand times.
fn interrupts(holding: &Guard, waiting: &Guard) {
    let _alone = alone();
    let _lease = holding.try_enter_for(&key("a"), PATIENCE).unwrap();
    let handle = Interrupt::new();
    let (tell, told) = mpsc::channel();
    let thread = {
        let (guard, handle) = (Arc::clone(waiting), handle.clone());
        thread::spawn(move || {
            while {
                let wait = Wait::forever().interruptible_by(&handle);
                let outcome = guard.enter(&key("a"), wait);
                let returned = Instant::now();
                assert!(matches!(outcome, Err(GuardError::Interrupted { .. })));
                tell.send(returned).is_ok()
            } {}
        })
    };
    forgiving_one_miss(|| {
        let times: Times = (0..1_000)
            .map(|_| {
                thread::sleep(Duration::from_millis(2));
                let before = Instant::now();
                handle.interrupt();
                let returned = told.recv_timeout(STUCK).unwrap();
                returned.saturating_duration_since(before)
            })
            .collect();
        println!("interrupt to return: {times}");
        let (median, p99) = (Duration::from_millis(10), Duration::from_millis(100));
        if times.median() <= median && times.percentile(99) <= p99 {
            Ok(())
        } else {
            Err(times.to_string())
        }
    });
    drop(told);
    handle.interrupt();
    thread.join().unwrap();
}

#[test]
fn a_wait_returns_within_10_ms_of_its_interrupt_in_memory() {
    let [holding, waiting] = memory_guards();
    interrupts(&holding, &waiting);
    interrupts(&holding, &holding);
}

#[test]
fn a_wait_returns_within_10_ms_of_its_interrupt_in_redis() {
    let server = RedisServer::start();
    let [holding, waiting] = redis_guards(&server);
    interrupts(&holding, &waiting);
    interrupts(&holding, &holding);
}
