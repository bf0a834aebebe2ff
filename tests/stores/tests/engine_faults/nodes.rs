//! A node of the store that hangs costs the leases on others nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, eventually};
use guard_core::{CloseOutcome, GuardConfig, LeaseGuard, SandboxExecutionGuard as _};

use crate::{Hooked, Step, key, transient};

const HANG: Duration = Duration::from_secs(2);

/// A guard over three nodes, of which slots ending in `x` and `y` hang once the answer is set.
fn guard(config: &GuardConfig) -> (Arc<LeaseGuard<Hooked>>, Arc<AtomicBool>) {
    let hangs = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&hangs);
    let mut store = Hooked::new(move |step, slot| {
        let hung = slot.as_str().ends_with(['x', 'y']) && now.load(Ordering::SeqCst);
        if hung && step != Step::Watch {
            thread::sleep(HANG);
            return Err(transient().with_unknown_outcome());
        }
        Ok(())
    });
    store.nodes = true;
    (store.guard(config), hangs)
}

#[test]
fn nodes_that_hang_cost_others_no_renewal() {
    let (guard, hangs) = guard(&GuardConfig {
        lease_ttl: Duration::from_secs(3),
        auto_renew: true,
        ..GuardConfig::default()
    });
    let enter = |end: &str| {
        let leases = (0..10).map(|number| guard.try_enter(&key(&format!("{number}{end}"))));
        leases.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let _lost = [enter("x"), enter("y")];
    let kept = enter("z");
    hangs.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_secs(8));
    assert!(kept.iter().all(|lease| lease.is_held()));
}

#[test]
fn nodes_that_hang_cost_others_no_release_and_no_look() {
    let (guard, hangs) = guard(&GuardConfig {
        lease_ttl: PATIENCE * 10,
        ..GuardConfig::default()
    });
    let stuck: Vec<_> = (0..10)
        .map(|number| guard.try_enter(&key(&format!("{number}x"))).unwrap())
        .collect();
    let watched = guard.try_enter(&key("watched z")).unwrap();
    let (tell, told) = mpsc::channel();
    watched.on_lost(move || tell.send(()).unwrap()).unwrap();
    hangs.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        for lease in &stuck {
            scope.spawn(|| assert_eq!(lease.close(), CloseOutcome::Deferred));
        }
    });
    // A release that goes on in the background, and a look.
    let begun = Instant::now();
    let lease = guard.try_enter(&key("deferred z")).unwrap();
    let memory = &guard.store().memory;
    memory.fail_next(guard_memory::Fault::Transient);
    memory.fail_next(guard_memory::Fault::Transient);
    assert_eq!(lease.close(), CloseOutcome::Deferred);
    memory.expire(&guard.slot(&key("watched z")));
    told.recv_timeout(PATIENCE).expect("the loss is told");
    eventually("the slot is free", || {
        guard.try_enter_now(&key("deferred z")).unwrap().is_some()
    });
    assert!(begun.elapsed() < HANG * 3, "{:?}", begun.elapsed());
}
