//! Answers that come byte by byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{SLACK, key};

/// Each byte comes well within the operation timeout.
const DRIP: Duration = Duration::from_millis(200);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(500);

/// A proxy whose answers drip while they are asked to.
struct Drips {
    port: u16,
    dripping: Arc<AtomicBool>,
}

impl Drips {
    fn to(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let dripping = Arc::new(AtomicBool::new(false));
        let drips = Arc::clone(&dripping);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to, None));
                let drips = Arc::clone(&drips);
                thread::spawn(move || pass_on(server, client, Some(&drips)));
            }
        });
        Self { port, dripping }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/1", self.port)
    }

    fn drip(&self) {
        self.dripping.store(true, Ordering::Relaxed);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, drips: Option<&AtomicBool>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        for byte in bytes[..count].chunks(1) {
            if drips.is_some_and(|drips| drips.load(Ordering::Relaxed)) {
                thread::sleep(DRIP);
            }
            if to.write_all(byte).is_err() {
                break;
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[test]
fn an_answer_that_comes_byte_by_byte_costs_one_operation_timeout() {
    let server = RedisServer::start();
    let drips = Drips::to(server.port());
    for wakeups in [Wakeups::Polling, Wakeups::Tracking] {
        drips.dripping.store(false, Ordering::Relaxed);
        let guard = RedisSandboxExecutionGuard::builder(drips.url())
            .operation_timeout(OPERATION_TIMEOUT)
            .wakeups(wakeups)
            .build()
            .unwrap();
        // A release that came to no answer is no business of the next round.
        let slot = |name: &str| key(&format!("{name}-{wakeups:?}"));
        let _held = guard.try_enter(&slot("held")).unwrap();
        let own = guard.try_enter(&slot("own")).unwrap();
        drips.drip();
        let wait = Duration::from_millis(100);
        let before = Instant::now();
        assert!(guard.try_enter_for(&slot("held"), wait).is_err());
        let took = before.elapsed();
        assert!(took < wait + OPERATION_TIMEOUT + SLACK / 2, "{took:?}");
        let before = Instant::now();
        own.close();
        let took = before.elapsed();
        assert!(took < OPERATION_TIMEOUT + SLACK / 2, "{took:?}");
    }
}

#[test]
fn a_greeting_that_comes_byte_by_byte_costs_one_operation_timeout() {
    let server = RedisServer::start();
    let drips = Drips::to(server.port());
    drips.drip();
    let before = Instant::now();
    let built = RedisSandboxExecutionGuard::builder(drips.url())
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    let took = before.elapsed();
    assert!(built.expect_err("too slow").is_transient());
    assert!(took < OPERATION_TIMEOUT + SLACK / 2, "{took:?}");
}
