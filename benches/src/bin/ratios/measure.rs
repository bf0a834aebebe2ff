//! The measurements of the table. Each function measures what belongs side by side.

use std::thread;
use std::time::Duration;

use guard_benches::crowd::{contended, each_together, waiting};
use guard_benches::floor;
use guard_benches::guards::{self, section};
use guard_benches::handover::{Handover, idle_ping};
use guard_benches::peers;
use guard_benches::renewal;
use guard_benches::samples::{Samples, Turn, each, nanos, take_turns};
use guard_store_tests::redis_server::RedisServer;

use crate::progress::Stage;
use crate::table::{Row, Unit};

/// Threads that work at once.
const THREADS: usize = 8;
/// Sections of all of them together on one slot of Redis.
const SECTIONS: usize = 4_000;
/// Sections of each of them on a slot of its own in memory.
const SECTIONS_EACH: usize = 2_000;
const WAITERS: usize = 100;
const WAIT: Duration = Duration::from_secs(10);
const RENEWED: usize = 1_000;
const A_SECOND: f64 = 1e9;

/// Measures everything.
pub(crate) fn all() -> Vec<Row> {
    let server = RedisServer::start();
    let (mut rows, mut peers) = (Vec::new(), Vec::new());
    redis(&server, &mut rows, &mut peers);
    memory(&mut rows);
    handover(&server, &mut rows, &mut peers);
    crowded(&server, &mut rows);
    drop(server);
    costs(&mut rows);
    rows.append(&mut peers);
    rows
}

fn redis(server: &RedisServer, rows: &mut Vec<Row>, peer_rows: &mut Vec<Row>) {
    const ROUNDS: usize = 250;
    const TIMES: u32 = 10;
    let guard = guards::redis(server).build().unwrap();
    let fenced = guards::redis(server).fencing(true).key_prefix("fenced");
    let fenced = fenced.build().unwrap();
    let mut stage = Stage::begin("uncontended, Redis");
    let [floor, plain, fenced, rslock, redlock, redsync] = take_turns(
        ROUNDS,
        [
            each(TIMES, floor::redis(server)),
            each(TIMES, section(guard, "a")),
            each(TIMES, section(fenced, "a")),
            each(TIMES, peers::rslock(server)),
            each(TIMES, peers::redlock(server)),
            each(TIMES, peers::redsync(server)),
        ],
        |round| stage.at(round, ROUNDS),
    );
    let peers = [&rslock, &redlock, &redsync];
    rows.push(Row::of("redis/uncontended", &plain, &floor).beside(&peers));
    rows.push(Row::of("redis/uncontended-fenced", &fenced, &floor));
    let names = ["peers/rslock", "peers/redlock", "peers/redsync"];
    for (name, peer) in names.into_iter().zip(peers) {
        peer_rows.push(Row::of(name, peer, &floor));
    }
}

fn memory(rows: &mut Vec<Row>) {
    const ROUNDS: usize = 100;
    const TIMES: u32 = 2_000;
    let guard = &guards::memory();
    let mut stage = Stage::begin("uncontended, memory");
    let [floor, one, floor_of_eight, eight] = take_turns(
        ROUNDS,
        [
            each(TIMES, floor::memory("a")),
            each(TIMES, section(guard, "a")),
            each_together(THREADS, SECTIONS_EACH, |number| {
                floor::memory(&number.to_string())
            }),
            each_together(THREADS, SECTIONS_EACH, |number| {
                section(guard, &number.to_string())
            }),
        ],
        |round| stage.at(round, ROUNDS),
    );
    rows.push(Row::of("memory/uncontended", &one, &floor));
    rows.push(Row::of("memory/8-threads-8-slots", &eight, &floor_of_eight));
}

fn handover(server: &RedisServer, rows: &mut Vec<Row>, peer_rows: &mut Vec<Row>) {
    let [ping, processes, threads, published] = handovers(server);
    rows.push(Row::of("redis/handover-processes", &processes, &ping));
    rows.push(Row::of("redis/handover-threads", &threads, &ping));
    peer_rows.push(Row::of("peers/handover-published", &published, &ping));
}

/// A PING, and hand-overs between processes, between threads, and by publishing.
pub(crate) fn handovers(server: &RedisServer) -> [Samples; 4] {
    const ROUNDS: usize = 100;
    let mut stage = Stage::begin("hand-over");
    take_turns(
        ROUNDS,
        [
            idle_ping(server),
            Handover::between_processes(server).turn(),
            Handover::between_threads(server).turn(),
            Handover::by_publishing(server).turn(),
        ],
        |round| stage.at(round, ROUNDS),
    )
}

fn crowded(server: &RedisServer, rows: &mut Vec<Row>) {
    const ROUNDS: usize = 5;
    let guard = guards::redis(server).build().unwrap();
    let unbounded = guards::redis_unbounded(server).build().unwrap();
    let by = |guard, threads| -> Turn<'_> {
        Box::new(move || nanos(contended(guard, threads, SECTIONS)) / SECTIONS as f64)
    };
    let mut stage = Stage::begin("contended");
    let [one, eight, eight_unbounded] = take_turns(
        ROUNDS,
        [by(&guard, 1), by(&guard, THREADS), by(&unbounded, THREADS)],
        |round| stage.at(round, ROUNDS),
    );
    rows.push(Row::of("redis/contended-8", &eight, &one));
    rows.push(Row::of(
        "redis/contended-8-unbounded",
        &eight_unbounded,
        &one,
    ));
}

/// What is counted, not timed, runs at once, each on a server of its own.
fn costs(rows: &mut Vec<Row>) {
    let _stage = Stage::begin("waiting and renewal");
    let (commands, cost) = thread::scope(|scope| {
        let commands = scope.spawn(|| waiting(&RedisServer::start(), WAITERS, WAIT));
        let cost = renewal::of_leases(&RedisServer::start(), RENEWED);
        (commands.join().unwrap(), cost)
    });
    let rates = Unit::CommandsASecond;
    rows.push(Row::counted(
        "redis/waiting-100",
        Unit::Commands,
        commands as f64,
        1.0,
    ));
    rows.push(Row::counted("redis/renew-1000", rates, cost.commands, 1.0));
    let processor = Unit::TimeASecond;
    rows.push(Row::counted(
        "redis/renew-1000-processor",
        processor,
        cost.processor_ns,
        A_SECOND,
    ));
}
