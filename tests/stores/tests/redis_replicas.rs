//! Leases that replicas acknowledge, and replicas that do not. Each test has servers of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_core::{Budget, HandedOver, LeaseStore, LeaseToken, LeaseTtl, OwnerLabel, Renewed};
use guard_redis::{
    CloseOutcome, GuardError, IsolationScope, RedisGuardBuilder, RedisSandboxExecutionGuard,
    SandboxExecutionGuard, SandboxIsolationKey,
};
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::replicas;
use redis::Commands;

const OPERATION_TIMEOUT: Duration = Duration::from_millis(1_000);
/// What a noisy machine may add to a bound that is promised.
const SLACK: Duration = Duration::from_millis(1_500);

fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

/// A master with two replicas, both of which must acknowledge.
struct Scene {
    master: RedisServer,
    replicas: Vec<RedisServer>,
}

impl Scene {
    fn new() -> Self {
        let (master, replicas) = replicas::start(2);
        Self { master, replicas }
    }

    fn builder(&self) -> RedisGuardBuilder {
        RedisSandboxExecutionGuard::builder(self.master.url())
            .min_replicas(2)
            .operation_timeout(OPERATION_TIMEOUT)
            .retry_interval(Duration::from_millis(20))
    }

    /// The replicas take nothing and acknowledge nothing.
    fn cut_off(&self) {
        self.replicas.iter().for_each(RedisServer::stop_process);
    }

    fn join(&self) {
        self.replicas.iter().for_each(RedisServer::cont_process);
        replicas::in_sync(&self.master, self.replicas.len());
    }

    fn is_free(&self, guard: &RedisSandboxExecutionGuard, value: &str) -> bool {
        let slot = guard.slot(&key(value));
        self.master.cli(&["EXISTS", slot.as_str()]) == "0"
    }

    fn freed(&self, guard: &RedisSandboxExecutionGuard, value: &str) {
        eventually("the slot is free", || self.is_free(guard, value));
    }

    /// How often the master was asked for acknowledgements.
    fn waits(&self) -> u64 {
        let stats = self.master.cli(&["INFO", "commandstats"]);
        let calls = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }
}

#[track_caller]
fn assert_too_few(error: &GuardError) {
    assert!(error.is_transient(), "{error:?}");
    let GuardError::Store { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.to_string().contains("`min_replicas`"), "{error:?}");
}

#[test]
fn an_entry_that_too_few_replicas_acknowledge_fails_in_time_and_leaves_the_slot_free() {
    let scene = Scene::new();
    for fencing in [false, true] {
        let guard = scene.builder().fencing(fencing).build().unwrap();
        let fewer = scene.builder().min_replicas(1).build().unwrap();
        drop(guard.try_enter(&key("a")).unwrap());
        // One of two is not enough for the one, and enough for the other.
        scene.replicas[0].stop_process();
        let before = Instant::now();
        let error = guard.try_enter_now(&key("a")).expect_err("one is cut off");
        let took = before.elapsed();
        assert!(took < OPERATION_TIMEOUT + SLACK, "{took:?}");
        assert_too_few(&error);
        scene.freed(&guard, "a");
        drop(fewer.try_enter_for(&key("a"), PATIENCE).unwrap());
        scene.replicas[1].stop_process();
        assert_too_few(
            &fewer
                .try_enter_now(&key("a"))
                .expect_err("both are cut off"),
        );
        scene.freed(&guard, "a");
        scene.join();
        drop(
            guard
                .try_enter_now(&key("a"))
                .unwrap()
                .expect("a free slot"),
        );
    }
}

#[test]
fn an_entry_waits_replicas_out_for_its_tolerance() {
    let scene = Scene::new();
    let guard = scene.builder().outage_tolerance(PATIENCE).build().unwrap();
    scene.cut_off();
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key("a")))
    };
    std::thread::sleep(OPERATION_TIMEOUT * 2);
    assert!(!waiting.is_over(), "no replica has acknowledged");
    scene.join();
    drop(waiting.result().unwrap());
    scene.freed(&guard, "a");

    let impatient = scene.builder().outage_tolerance(OPERATION_TIMEOUT).build();
    let impatient = impatient.unwrap();
    scene.cut_off();
    let before = Instant::now();
    assert_too_few(&impatient.try_enter(&key("a")).expect_err("cut off"));
    assert!(before.elapsed() < 3 * OPERATION_TIMEOUT + SLACK);
    scene.freed(&impatient, "a");
    scene.join();
}

#[test]
fn a_renewal_that_is_not_acknowledged_does_not_prolong_the_lease() {
    let scene = Scene::new();
    let ttl = Duration::from_secs(4);
    let guard = scene.builder().lease_ttl(ttl).build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let entered = Instant::now();
    scene.cut_off();
    std::thread::sleep(ttl / 4);
    assert_too_few(&lease.renew().expect_err("cut off"));
    // Unknown is not lost, either.
    assert!(lease.is_held());
    assert!(lease.remaining() < ttl - ttl / 4, "{:?}", lease.remaining());
    eventually("the lease is lost", || !lease.is_held());
    let held = entered.elapsed();
    assert!(held < ttl + SLACK, "{held:?}");
    scene.join();
    lease.close();
}

#[test]
fn renewal_in_the_background_keeps_nothing_alive_without_acknowledgement() {
    let scene = Scene::new();
    let ttl = Duration::from_secs(3);
    let guard = scene.builder().lease_ttl(ttl).auto_renew(true).build();
    let lease = guard.unwrap().try_enter(&key("a")).unwrap();
    std::thread::sleep(ttl + ttl / 2);
    assert!(lease.is_held(), "renewals are acknowledged");
    scene.cut_off();
    let cut = Instant::now();
    eventually("the lease is lost", || !lease.is_held());
    assert!(cut.elapsed() < ttl + SLACK, "{:?}", cut.elapsed());
    scene.join();
}

#[test]
fn who_is_handed_a_slot_without_acknowledgement_waits_for_it_or_leaves_it_free() {
    let scene = Scene::new();
    let guard = scene.builder().outage_tolerance(PATIENCE).build().unwrap();
    for gives_up in [false, true] {
        let lease = guard.try_enter(&key("a")).unwrap();
        let wait = if gives_up { SLACK } else { PATIENCE };
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), wait))
        };
        scene.cut_off();
        // The swap has been made on the master, and may be undone.
        assert_eq!(lease.close(), CloseOutcome::Deferred);
        assert!(!waiting.is_over());
        if gives_up {
            let error = waiting.result().expect_err("nothing is acknowledged");
            assert!(error.is_transient(), "{error:?}");
            scene.freed(&guard, "a");
            scene.join();
        } else {
            scene.join();
            let lease = waiting.result().unwrap();
            let slot = guard.slot(&key("a"));
            let holder = scene.master.cli(&["GET", slot.as_str()]);
            assert_eq!(holder, lease.token().as_str());
            assert_eq!(lease.close(), CloseOutcome::Released);
            scene.freed(&guard, "a");
        }
    }
}

/// A hand-over and an attempt of its receiver may be under way at once, for the same token.
#[test]
fn an_attempt_without_acknowledgement_does_not_free_what_a_hand_over_brings() {
    let scene = Scene::new();
    let guard = scene.builder().build().unwrap();
    let (store, slot) = (guard.store(), guard.slot(&key("a")));
    let ttl = LeaseTtl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let [from, to] = [(); 2].map(|()| LeaseToken::generate(&OwnerLabel::default()));
    let holder = || scene.master.cli(&["GET", slot.as_str()]);
    store
        .acquire(&slot, &from, ttl, Budget::new(PATIENCE))
        .unwrap();
    scene.cut_off();
    std::thread::scope(|scope| {
        let hand_over =
            scope.spawn(|| store.hand_over(&slot, &from, &to, ttl, Budget::new(PATIENCE)));
        eventually("the slot is passed on", || holder() == to.as_str());
        let attempt = store.acquire(&slot, &to, ttl, Budget::new(SLACK / 4));
        assert!(attempt.is_err_and(|error| error.is_transient() && error.is_unknown()));
        scene.join();
        let handed = hand_over.join().unwrap().unwrap();
        assert!(matches!(handed, HandedOver::Granted { .. }), "{handed:?}");
    });
    assert_eq!(holder(), to.as_str(), "what was granted is there");
    store.release(&slot, &to, Budget::new(PATIENCE)).unwrap();
}

#[test]
fn a_lease_that_was_granted_is_in_its_slot_however_replicas_come_and_go() {
    const THREADS: usize = 4;
    const LASTS: Duration = Duration::from_secs(6);
    let scene = Scene::new();
    let builder = || {
        scene
            .builder()
            .operation_timeout(Duration::from_millis(200))
            .outage_tolerance(PATIENCE)
    };
    let guards = [builder().build().unwrap(), builder().build().unwrap()];
    let slot = guards[0].slot(&key("a"));
    let start = Instant::now();
    let (inside, entered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for guard in guards.iter().cycle().take(2 * THREADS) {
            let (slot, inside, entered, url) = (&slot, &inside, &entered, scene.master.url());
            scope.spawn(move || {
                let client = redis::Client::open(url).unwrap();
                let mut eye = client.get_connection().unwrap();
                while start.elapsed() < LASTS {
                    let Ok(lease) = guard.try_enter_for(&key("a"), OPERATION_TIMEOUT) else {
                        continue;
                    };
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    let holder: Option<String> = eye.get(slot.as_str()).unwrap();
                    assert_eq!(holder.as_deref(), Some(lease.token().as_str()));
                    entered.fetch_add(1, Ordering::SeqCst);
                    inside.store(false, Ordering::SeqCst);
                    drop(lease);
                }
            });
        }
        let mut random = Random::new(7);
        while start.elapsed() < LASTS {
            scene.replicas[0].stop_process();
            std::thread::sleep(Duration::from_millis(random.below(400)));
            scene.replicas[0].cont_process();
            std::thread::sleep(Duration::from_millis(random.below(100)));
        }
    });
    let entered = entered.into_inner();
    println!("{entered} entries");
    assert!(entered > 100, "{entered}");
    scene.freed(&guards[0], "a");
}

/// A look on the connection of the wake-ups takes slots, too.
#[test]
fn who_is_woken_has_its_slot_acknowledged() {
    let scene = Scene::new();
    let guard = scene.builder().build().unwrap();
    let slot = guard.slot(&key("a"));
    for acknowledged in [true, false] {
        scene.master.cli(&["SET", slot.as_str(), "foreign"]);
        let wait = if acknowledged { PATIENCE } else { SLACK };
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), wait))
        };
        if !acknowledged {
            scene.cut_off();
        }
        let waits = scene.waits();
        scene.master.cli(&["DEL", slot.as_str()]);
        if acknowledged {
            drop(waiting.result().unwrap());
            assert_eq!(scene.waits() - waits, 1);
        } else {
            assert_too_few(&waiting.result().expect_err("cut off"));
            assert!(scene.waits() > waits);
            scene.freed(&guard, "a");
        }
    }
    scene.join();
}

#[test]
fn acknowledgement_costs_one_command_more() {
    let scene = Scene::new();
    let guard = scene.builder().build().unwrap();
    let waits = |expected: u64, work: &dyn Fn()| {
        let before = scene.waits();
        work();
        assert_eq!(scene.waits() - before, expected);
    };
    waits(1, &|| drop(guard.try_enter(&key("a")).unwrap()));
    waits(2, &|| {
        let lease = guard.try_enter(&key("a")).unwrap();
        lease.renew().unwrap();
        assert!(guard.holder(&key("a")).unwrap().is_some());
        lease.close();
    });
    let ttl = LeaseTtl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let leases: Vec<_> = (0..20)
        .map(|number| guard.try_enter(&key(&number.to_string())).unwrap())
        .collect();
    let mut names: Vec<_> = (0..20)
        .map(|number| guard.slot(&key(&number.to_string())))
        .zip(leases.iter().map(|lease| lease.token().clone()))
        .collect();
    waits(1, &|| {
        let answers = guard.store().renew_many(&names, ttl, Budget::new(PATIENCE));
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Ok(Renewed::Renewed)))
        );
    });
    // What is not held is known to be so without any replica.
    names[7].0 = guard.slot(&key("nobody's"));
    scene.cut_off();
    let answers = guard
        .store()
        .renew_many(&names, ttl, Budget::new(OPERATION_TIMEOUT));
    for (number, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(Renewed::NotHeld) => assert_eq!(number, 7),
            answer => {
                assert!(answer.is_err_and(|error| error.is_transient() && error.is_unknown()))
            }
        }
    }
    scene.join();
}
