//! How long an outage has lasted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting};
use guard_core::{GuardConfig, GuardError, SandboxExecutionGuard as _};

use crate::{Hooked, Step, key, transient};

const TOLERANCE: Duration = Duration::from_secs(1);

fn config() -> GuardConfig {
    GuardConfig {
        outage_tolerance: TOLERANCE,
        ..GuardConfig::default()
    }
}

#[test]
fn silence_between_two_failures_is_no_outage() {
    let fails = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&fails);
    let guard = Hooked::new(move |step, _| {
        if step == Step::Acquire && once.swap(false, Ordering::SeqCst) {
            return Err(transient());
        }
        Ok(())
    })
    .guard(&config());
    fails.store(true, Ordering::SeqCst);
    // One attempt, no answer: the outage begins.
    let failed = guard.try_enter_now(&key("a"));
    assert!(matches!(failed, Err(GuardError::Store { .. })));
    thread::sleep(TOLERANCE * 3 / 2);
    fails.store(true, Ordering::SeqCst);
    guard.try_enter_for(&key("a"), PATIENCE).unwrap().close();
}

#[test]
fn an_entry_that_is_never_answered_fails_though_others_are() {
    let guard = Hooked::new(|step, slot| {
        if step == Step::Acquire && slot.as_str().ends_with('x') {
            return Err(transient());
        }
        Ok(())
    })
    .guard(&config());
    let stop = Arc::new(AtomicBool::new(false));
    let others = {
        let (guard, stop) = (Arc::clone(&guard), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                guard.try_enter(&key("a")).unwrap().close();
                thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let begun = Instant::now();
    let waiting = {
        let guard = Arc::clone(&guard);
        Waiting::start(move || guard.try_enter_for(&key("x"), PATIENCE).map(drop))
    };
    let failed = waiting.result();
    assert!(
        matches!(failed, Err(GuardError::Store { .. })),
        "{failed:?}"
    );
    assert!(begun.elapsed() >= TOLERANCE && begun.elapsed() < TOLERANCE * 4);
    stop.store(true, Ordering::SeqCst);
    others.join().unwrap();
}
