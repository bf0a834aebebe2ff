//! What renewal costs the store.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::together;
use guard_redis::{CloseOutcome, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{builder, key};

const LEASES: usize = 1_000;
const TTL: Duration = Duration::from_secs(30);
/// A third of the TTL and more: every lease is renewed at least once.
const WATCHED: Duration = Duration::from_secs(12);
const COMMANDS_A_SECOND: f64 = 40.0;

/// Counts the commands that clients send from now on; those inside scripts are not counted.
fn count_commands(server: &RedisServer) -> Arc<AtomicU64> {
    let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    monitor.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(monitor).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "+OK");
    let count = Arc::<AtomicU64>::default();
    let counting = Arc::clone(&count);
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if !line.contains(" lua]") {
                counting.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    count
}

#[test]
fn a_thousand_leases_are_renewed_with_few_commands() {
    thread::scope(|scope| {
        for fencing in [false, true] {
            scope.spawn(move || renew_a_thousand(fencing));
        }
    });
}

fn renew_a_thousand(fencing: bool) {
    let server = RedisServer::start();
    let guard = builder(&server.url())
        .lease_ttl(TTL)
        .fencing(fencing)
        .build()
        .unwrap();
    let leases = together(8, |thread| {
        let enter = |number| {
            guard
                .try_enter(&key(&format!("{thread}-{number}")))
                .unwrap()
        };
        (0..LEASES / 8).map(enter).collect::<Vec<_>>()
    });
    // Each is looked at once soon after it was entered, and then at a third of the TTL.
    thread::sleep(Duration::from_secs(1));
    let commands = count_commands(&server);
    let start = Instant::now();
    thread::sleep(WATCHED);
    let rate = commands.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    println!("fencing {fencing}: {rate:.1} commands a second");
    assert!(
        rate <= COMMANDS_A_SECOND,
        "fencing {fencing}: {rate} commands a second"
    );
    assert!(rate > 0.0, "nothing is renewed");
    for lease in leases.iter().flatten() {
        assert!(lease.remaining() > TTL / 2, "{:?}", lease.remaining());
    }
    for lease in leases.iter().flatten() {
        assert_eq!(lease.close(), CloseOutcome::Released);
    }
}
