//! Renewal goes on, whatever happens to connections, callbacks and observers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, eventually};
use guard_core::{CloseEvent, EnterEvent, GuardObserver, LostEvent, OutageEvent, WaitEvent};
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease};
use guard_store_tests::redis_server::RedisServer;

use crate::{builder, key};

const TTL: Duration = Duration::from_millis(1_500);

/// Whether leases are held over several TTLs.
#[track_caller]
fn assert_kept(leases: &[SandboxLease]) {
    for _ in 0..30 {
        thread::sleep(TTL / 10);
        for lease in leases {
            assert!(lease.is_held());
        }
    }
}

fn enter_some(guard: &RedisSandboxExecutionGuard) -> Vec<SandboxLease> {
    let keys = ["a", "b", "c"].map(key);
    keys.iter()
        .map(|key| guard.try_enter(key).unwrap())
        .collect()
}

#[test]
fn renewal_goes_on_after_every_client_was_ended_and_the_way_was_down() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = builder(&proxy.url()).lease_ttl(TTL).build().unwrap();
    let leases = enter_some(&guard);
    for _ in 0..2 {
        thread::sleep(TTL / 3);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_kept(&leases);
        proxy.refuse(true);
        proxy.cut_all();
        thread::sleep(TTL / 4);
        proxy.heal();
        assert_kept(&leases);
    }
    for lease in leases {
        assert_eq!(lease.close(), CloseOutcome::Released);
    }
}

/// An observer and callbacks that do the worst: each call sleeps for a minute.
struct Sleepy;

impl GuardObserver for Sleepy {
    fn on_enter(&self, _: &EnterEvent) {
        thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn an_observer_that_sleeps_for_a_minute_costs_no_renewal() {
    let server = RedisServer::start();
    let guard = builder(&server.url())
        .lease_ttl(TTL)
        .observer(Arc::new(Sleepy))
        .build()
        .unwrap();
    let leases = enter_some(&guard);
    assert_kept(&leases);
    for lease in leases {
        assert_eq!(lease.close(), CloseOutcome::Released);
    }
    let grace = Duration::from_secs(2);
    let before = std::time::Instant::now();
    drop(guard);
    assert!(before.elapsed() < grace + crate::SLACK);
}

#[test]
fn a_callback_that_sleeps_for_a_minute_costs_no_renewal() {
    let server = RedisServer::start();
    let guard = builder(&server.url()).lease_ttl(TTL).build().unwrap();
    let (tell, told) = mpsc::channel();
    let lost = guard.try_enter(&key("lost")).unwrap();
    lost.on_lost(move || {
        tell.send(()).unwrap();
        thread::sleep(Duration::from_secs(60));
    })
    .unwrap();
    let leases = enter_some(&guard);
    server.cli(&["DEL", guard.slot(&key("lost")).as_str()]);
    told.recv_timeout(PATIENCE).unwrap();
    assert_kept(&leases);
}

/// What an observer or a callback may do to its guard.
struct Meddler {
    guard: Arc<std::sync::Mutex<Option<RedisSandboxExecutionGuard>>>,
    kept: std::sync::Mutex<Vec<SandboxLease>>,
    calls: [AtomicU32; 5],
}

impl Meddler {
    fn meddle(&self, call: usize, slot: &str) {
        let number = self.calls[call].fetch_add(1, Ordering::SeqCst);
        let guard = self.guard.lock().unwrap().clone();
        if let Some(guard) = guard.filter(|_| !slot.contains("meddled")) {
            let name = format!("meddled-{call}-{number}");
            let lease = guard.try_enter_for(&key(&name), PATIENCE).unwrap();
            self.kept.lock().unwrap().push(lease);
            if number.is_multiple_of(2) {
                self.kept.lock().unwrap().drain(..).for_each(drop);
            }
        }
        assert!(number % 3 != 2, "on purpose");
    }
}

impl GuardObserver for Meddler {
    fn on_wait(&self, event: &WaitEvent) {
        self.meddle(0, event.slot());
    }

    fn on_enter(&self, event: &EnterEvent) {
        self.meddle(1, event.slot());
    }

    fn on_close(&self, event: &CloseEvent) {
        self.meddle(2, event.slot());
    }

    fn on_lost(&self, event: &LostEvent) {
        self.meddle(3, event.slot());
    }

    fn on_outage(&self, event: &OutageEvent) {
        let _ = event.lasted();
        self.calls[4].fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_observer_that_enters_closes_panics_and_drops_the_guard_hears_everything_and_harms_nobody() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let meddler = Arc::new(Meddler {
        guard: Arc::default(),
        kept: std::sync::Mutex::default(),
        calls: [const { AtomicU32::new(0) }; 5],
    });
    let observer = Arc::clone(&meddler);
    let guard = builder(&proxy.url())
        .lease_ttl(TTL)
        .observer(observer)
        .build()
        .unwrap();
    *meddler.guard.lock().unwrap() = Some(guard.clone());
    let leases = enter_some(&guard);
    for _ in 0..5 {
        assert!(
            guard
                .try_enter_for(&key("a"), Duration::from_millis(20))
                .is_err()
        );
        drop(guard.try_enter(&key("d")).unwrap());
        let lost = guard.try_enter(&key("lost")).unwrap();
        server.cli(&["DEL", guard.slot(&key("lost")).as_str()]);
        eventually("the lease is lost", || !lost.is_held());
    }
    proxy.refuse(true);
    proxy.cut_all();
    assert!(guard.try_enter_now(&key("d")).is_err());
    proxy.heal();
    drop(guard.try_enter(&key("d")).unwrap());
    assert_kept(&leases);
    let calls = || {
        meddler
            .calls
            .each_ref()
            .map(|calls| calls.load(Ordering::SeqCst))
    };
    eventually("everything was heard", || {
        let [wait, enter, close, lost, outage] = calls();
        wait >= 5 && enter >= 14 && close >= 10 && lost >= 5 && outage >= 2
    });
    println!("{:?}", calls());
    drop(leases);
    // The last handle goes on the callback thread.
    let last = meddler.guard.lock().unwrap().take();
    let keeper = last.clone().unwrap().try_enter(&key("end")).unwrap();
    drop(guard);
    keeper.on_lost(move || drop(last)).unwrap();
    server.cli(&["FLUSHALL"]);
    eventually("the last lease is lost", || !keeper.is_held());
    drop(keeper);
    meddler.kept.lock().unwrap().clear();
}
