//! Interrupts and deadlines at the moment of a grant.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use guard_conformance::{PATIENCE, eventually};
use guard_core::{GuardError, Interrupt, SandboxExecutionGuard, Wait};
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;

use crate::{Guard, SEED, STUCK, key, memory_guards, micros, redis_guards, spin};

/// What ends a wait at the moment of its grant.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Interrupt,
    Deadline,
}

/// Rounds in which the end of a wait falls together with the grant that the holder's close brings it: the
/// two are up to `spread` microseconds apart, about the moment at which one comes as often as the other.
/// Where that is depends on the machine, so every outcome moves the next round's aim by a step (the up-and-down
/// method). The holder's guard is the waiter's (the slot is handed over) or another (it is released).
fn coincidences(holding: &Guard, waiting: &Guard, ending: Ending, rounds: u32, spread: u64) {
    let mut random = Random::new(Random::seed(SEED));
    let (slot, handle) = (key("a"), Interrupt::new());
    let (ask, asked) = mpsc::channel::<Duration>();
    let (answer, answered) = mpsc::channel();
    let waiter = {
        let (guard, slot, handle) = (Arc::clone(waiting), slot.clone(), handle.clone());
        thread::spawn(move || {
            for patience in asked {
                let wait = Wait::at_most(patience).interruptible_by(&handle);
                let outcome = guard.enter(&slot, wait);
                let held = outcome.map(|lease| assert!(lease.is_held()));
                answer.send(held).unwrap();
            }
        })
    };
    let step = Duration::from_micros(spread / 8);
    let (mut entered, mut ended) = (0_u32, 0_u32);
    for _ in 0..rounds {
        let lease = holding.try_enter_for(&slot, PATIENCE).unwrap();
        let approach = micros(&mut random, 2 * spread);
        let close = micros(&mut random, spread) + step * entered.saturating_sub(ended);
        let end = micros(&mut random, spread) + step * ended.saturating_sub(entered);
        match ending {
            Ending::Interrupt => ask.send(PATIENCE).unwrap(),
            Ending::Deadline => ask.send(approach + end).unwrap(),
        }
        spin(approach);
        thread::scope(|scope| {
            if ending == Ending::Interrupt {
                let handle = &handle;
                scope.spawn(move || {
                    spin(end);
                    handle.interrupt();
                });
            }
            spin(close);
            lease.close();
        });
        let outcome = answered.recv_timeout(STUCK).expect("the waiter is stuck");
        match (outcome, ending) {
            (Ok(()), _) => {
                entered += 1;
                assert_eq!(
                    handle.take(),
                    ending == Ending::Interrupt,
                    "it stays pending"
                );
            }
            (Err(GuardError::Interrupted { .. }), Ending::Interrupt) => {
                ended += 1;
                assert!(!handle.is_interrupted(), "it is reported once");
            }
            (Err(GuardError::TimedOut { .. }), Ending::Deadline) => ended += 1,
            (outcome, _) => panic!("{outcome:?}"),
        }
        // The next round's entry shows that the slot is free.
    }
    drop(ask);
    waiter.join().unwrap();
    assert!(waiting.try_enter_for(&slot, PATIENCE).is_ok());
    eventually("nobody holds the slot", || {
        holding.holder(&slot).unwrap().is_none()
    });
    println!("{entered} leases, {ended} errors");
    assert!(
        entered.min(ended) >= rounds / 10,
        "both came about often: {entered}, {ended}"
    );
}

#[test]
fn an_interrupt_at_the_moment_of_a_hand_over_ends_in_a_lease_or_an_error() {
    let [guard, _] = memory_guards();
    coincidences(&guard, &guard, Ending::Interrupt, 5_000, 30);
}

#[test]
fn an_interrupt_at_the_moment_of_a_release_ends_in_a_lease_or_an_error() {
    let [holding, waiting] = memory_guards();
    coincidences(&holding, &waiting, Ending::Interrupt, 5_000, 30);
}

#[test]
fn a_deadline_at_the_moment_of_a_hand_over_ends_in_a_lease_or_an_error() {
    let [guard, _] = memory_guards();
    coincidences(&guard, &guard, Ending::Deadline, 5_000, 30);
}

#[test]
fn a_deadline_at_the_moment_of_a_release_ends_in_a_lease_or_an_error() {
    let [holding, waiting] = memory_guards();
    coincidences(&holding, &waiting, Ending::Deadline, 5_000, 30);
}

#[test]
fn so_it_is_in_redis() {
    let server = RedisServer::start();
    let [here, there] = redis_guards(&server);
    for ending in [Ending::Interrupt, Ending::Deadline] {
        coincidences(&here, &here, ending, 500, 400);
        coincidences(&here, &there, ending, 500, 1_000);
    }
}
