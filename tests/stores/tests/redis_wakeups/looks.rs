//! Looks that the listening thread begins on behalf of a waiter.

use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::PATIENCE;
use guard_conformance::eventually;
use guard_conformance::proxy::Proxy;
use guard_redis::{GuardError, Interrupt, RedisSandboxExecutionGuard, SandboxExecutionGuard, Wait};
use guard_store_tests::redis_server::RedisServer;

use crate::{hold, key, until_watched};

const TIMEOUT: Duration = Duration::from_secs(4);

#[test]
fn an_interrupt_during_a_look_without_an_answer_ends_the_wait_with_the_look() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guard = RedisSandboxExecutionGuard::builder(proxy.url())
        .retry_interval(PATIENCE)
        .operation_timeout(TIMEOUT)
        .build()
        .unwrap();
    hold(&server, &guard, &key("a"));
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let wait = Wait::forever().interruptible_by(&interrupt);
            let outcome = guard.enter(&key("a"), wait).map(drop);
            (outcome, Instant::now())
        });
        until_watched(&server, 1);
        // It sleeps by now; its next bytes get nowhere.
        thread::sleep(Duration::from_millis(200));
        proxy.hold_next();
        server.cli(&["PEXPIRE", guard.slot(&key("a")).as_str(), "600000"]);
        eventually("the look is under way", || proxy.is_holding());
        proxy.black_hole(true);
        interrupt.interrupt();
        let fault = Instant::now();
        let (outcome, end) = waiter.join().unwrap();
        proxy.heal();
        assert!(
            matches!(outcome, Err(GuardError::Interrupted { .. })),
            "{outcome:?}"
        );
        // The look takes the time of one operation at most; a further attempt would take as long again.
        let took = end.saturating_duration_since(fault);
        assert!(took < TIMEOUT + TIMEOUT / 2, "{took:?}");
    });
}
