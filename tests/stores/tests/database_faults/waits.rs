//! Waiting in the database: what it costs, how it ends, and that nothing of it stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting, eventually, together};
use guard_core::{GuardError, SandboxExecutionGuard};
use guard_session::DEFAULT_WAIT_CONNECTIONS;
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database};

use super::{blocked, builder, enter, guard, key, sessions, slot};

pub fn two_hundred_waiters_of_a_slot_need_few_connections<D: Database>() {
    const WAITERS: usize = 200;
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let mut client = Client::start(&server);
    assert!(client.lock(&slot(&key("a"))));
    let entered = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (guard, entered) = (guard.clone(), Arc::clone(&entered));
            thread::spawn(move || {
                let _lease = guard.try_enter_for(&key("a"), PATIENCE).unwrap();
                entered.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    eventually("one of them waits at the server", || blocked(&server) == 1);
    // What the builder and the looks left idle, and the one that waits.
    let few = DEFAULT_WAIT_CONNECTIONS as usize + 2;
    let most = (0..20).map(|_| sessions(&server)).max().unwrap();
    assert!(most <= few, "{most} connections");
    drop(client);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(entered.load(Ordering::SeqCst), WAITERS);
    let most = sessions(&server);
    assert!(most <= few, "{most} connections");
    assert_eq!(blocked(&server), 0);
}

pub fn slots_beyond_the_wait_connections_are_polled<D: Database>() {
    const SLOTS: usize = 8;
    let server = Daemon::<D>::start();
    let guard = builder::<D>(&server.url())
        .wait_connections(2)
        .build()
        .unwrap();
    let mut client = Client::start(&server);
    let keys: Vec<_> = (0..SLOTS).map(|slot| key(&slot.to_string())).collect();
    for key in &keys {
        assert!(client.lock(&slot(key)));
    }
    let waits: Vec<_> = keys
        .iter()
        .map(|key| {
            let (guard, key) = (guard.clone(), key.clone());
            Waiting::start(move || {
                guard
                    .try_enter_for(&key, PATIENCE)
                    .map(|lease| lease.is_held())
            })
        })
        .collect();
    eventually("two wait at the server", || blocked(&server) == 2);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(blocked(&server), 2);
    drop(client);
    for wait in waits {
        assert!(wait.result().unwrap());
    }
}

pub fn a_wait_that_ends_leaves_no_session_in_the_queue<D: Database>() {
    let server = Daemon::<D>::start();
    let other = guard(&server);
    let lease = enter(&other, &key("a"));
    for round in 0..20 {
        let waiting = guard(&server);
        let wait = {
            let waiting = waiting.clone();
            Waiting::start(move || waiting.try_enter(&key("a")).map(drop))
        };
        eventually("it waits at the server", || blocked(&server) == 1);
        if round % 2 == 0 {
            wait.interrupt();
            let outcome = wait.result();
            assert!(
                matches!(outcome, Err(GuardError::Interrupted { .. })),
                "{outcome:?}"
            );
        } else {
            waiting.close();
            let outcome = wait.result();
            assert!(
                matches!(outcome, Err(GuardError::Closed { .. })),
                "{outcome:?}"
            );
        }
        assert_eq!(blocked(&server), 0);
    }
    drop(lease);
    drop(enter(&other, &key("a")));
}

/// The holder's close and the waiter's giving up meet in every order: the slot is free afterwards, at once.
pub fn a_grant_that_meets_the_end_of_its_wait_is_given_back<D: Database>() {
    let server = Daemon::<D>::start();
    let (waiting, other) = (guard(&server), guard(&server));
    let (mut granted, mut interrupted) = (0, 0);
    for round in 0..60_u64 {
        let lease = enter(&other, &key("a"));
        let wait = {
            let waiting = waiting.clone();
            Waiting::start(move || waiting.try_enter(&key("a")).map(drop))
        };
        eventually("it waits at the server", || blocked(&server) == 1);
        thread::scope(|scope| {
            // The first rounds let the wait end before the close, the last ones long after.
            let closing = scope.spawn(|| {
                thread::sleep(Duration::from_micros(200_u64.saturating_sub(20 * round)));
                lease.close();
            });
            thread::sleep(Duration::from_micros(20 * round));
            if round >= 50 {
                closing.join().unwrap();
                eventually("the wait is over", || wait.is_over());
            }
            wait.interrupt();
        });
        match wait.result() {
            Ok(()) => granted += 1,
            Err(GuardError::Interrupted { .. }) => interrupted += 1,
            Err(error) => panic!("{error}"),
        }
        drop(enter(&other, &key("a")));
        // One that came too late is taken by the next wait of the thread, which has ended.
    }
    assert!(granted > 0 && interrupted > 0, "{granted}, {interrupted}");
    assert_eq!(blocked(&server), 0);
}

pub fn a_wait_survives_the_end_of_its_session_and_of_its_server<D: Database>() {
    let mut server = Daemon::<D>::start();
    let (guard, other) = (guard(&server), guard(&server));
    let lease = enter(&other, &key("a"));
    let wait = {
        let guard = guard.clone();
        Waiting::start(move || {
            guard
                .try_enter_for(&key("a"), PATIENCE)
                .map(|lease| lease.is_held())
        })
    };
    for _ in 0..3 {
        eventually("it waits at the server", || blocked(&server) == 1);
        server.end(&server.ask_sessions("id", "waits"));
    }
    eventually("it waits at the server again", || blocked(&server) == 1);
    assert!(!wait.is_over());
    server.restart();
    assert!(wait.result().unwrap());
    assert!(lease.renew().is_err());
}

/// Many slots, two processes' worth of guards, more slots than wait connections: nobody is forgotten.
pub fn no_wake_up_is_lost_in_a_storm<D: Database>() {
    let server = Daemon::<D>::start();
    let slow = |guards: usize| -> Vec<_> {
        (0..guards)
            .map(|_| {
                let builder = builder::<D>(&server.url()).wait_connections(3);
                builder
                    .retry_interval(Duration::from_millis(300))
                    .build()
                    .unwrap()
            })
            .collect()
    };
    let guards = slow(2);
    let inside: Vec<_> = (0..5).map(|_| AtomicUsize::new(0)).collect();
    let end = Instant::now() + Duration::from_secs(4);
    together(12, |number| {
        let guard = &guards[number % 2];
        let mut slot = number;
        while Instant::now() < end {
            slot = (slot * 7 + 3) % 5;
            let lease = guard
                .try_enter_for(&key(&slot.to_string()), PATIENCE)
                .unwrap();
            assert_eq!(inside[slot].fetch_add(1, Ordering::SeqCst), 0);
            thread::sleep(Duration::from_micros(300));
            inside[slot].fetch_sub(1, Ordering::SeqCst);
            assert!(lease.is_held());
            lease.close();
        }
    });
    assert_eq!(blocked(&server), 0);
    for slot in 0..5 {
        drop(enter(&guards[0], &key(&slot.to_string())));
    }
}
