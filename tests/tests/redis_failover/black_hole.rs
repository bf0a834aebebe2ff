//! A master that hangs: its connections stay open and nothing is answered.

use std::time::{Duration, Instant};

use guard_conformance::redis_topologies::Sentinels;
use guard_conformance::{eventually, together};
use guard_redis::{GuardError, SandboxExecutionGuard};

use crate::{OPERATION_TIMEOUT, SLACK, alone, builder, key};

const CALLERS: usize = 50;
const SLOTS: usize = 10;
/// Shorter than the sentinels take.
const SHORT: Duration = Duration::from_millis(700);

#[test]
fn fifty_callers_end_by_their_own_deadlines() {
    let _alone = alone();
    let servers = Sentinels::start();
    let guard = builder(&servers.address()).build().unwrap();
    // Connections that are about to hang, and the wake-ups' too.
    let held = guard.try_enter(&key("0")).unwrap();
    assert!(
        guard
            .try_enter_for(&key("0"), Duration::from_millis(200))
            .is_err()
    );
    held.close();

    let old = servers.master();
    let hanging = servers.master_server();
    hanging.stop_process();
    for deadline in [SHORT, 4 * SHORT] {
        together(CALLERS, |number| {
            let start = Instant::now();
            let entry = guard.try_enter_for(&key(&(number % SLOTS).to_string()), deadline);
            let took = start.elapsed();
            assert!(took < deadline + OPERATION_TIMEOUT + SLACK, "{took:?}");
            match entry {
                Ok(lease) => drop(lease),
                Err(GuardError::TimedOut { .. }) => {}
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        });
    }
    servers.wait_for_another_than(old);
    // Nothing that went unanswered keeps a slot, now or when the old master goes on.
    let all_free = || {
        for slot in 0..SLOTS {
            let entry = guard.try_enter_for(&key(&slot.to_string()), Duration::from_secs(10));
            drop(entry.unwrap());
        }
    };
    all_free();
    hanging.cont_process();
    all_free();
    eventually("no slot is held", || {
        servers.master_server().cli(&["KEYS", "*"]).is_empty()
    });
}
