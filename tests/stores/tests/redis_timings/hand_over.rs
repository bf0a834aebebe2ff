//! What a critical section costs when the slot is handed over inside the process, and who gets how much
//! of it when two processes want it.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use guard_conformance::measure::{Times, alone, forgiving_one_miss};
use guard_conformance::{together, unique_prefix};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::redis_server::RedisServer;

use crate::{bound, builder, guard, key};

const THREADS: usize = 8;
const SECTIONS: usize = 500;

fn sections(guard: &RedisSandboxExecutionGuard, times: usize) {
    for _ in 0..times {
        guard.try_enter(&key("a")).unwrap().close();
    }
}

/// The time of contended sections as a part of the time of as many by one thread.
fn ratio(guard: &RedisSandboxExecutionGuard, limit: f64) -> Result<(), String> {
    let (mut one, mut many) = (Times::default(), Times::default());
    for _ in 0..5 {
        let before = Instant::now();
        sections(guard, THREADS * SECTIONS);
        one.add(before.elapsed());
        let before = Instant::now();
        together(THREADS, |_| sections(guard, SECTIONS));
        many.add(before.elapsed());
    }
    let ratio = many.median().as_secs_f64() / one.median().as_secs_f64();
    let found = format!("ratio {ratio:.3}; {THREADS} threads: {many}; one: {one}");
    println!("{found}");
    if ratio <= limit { Ok(()) } else { Err(found) }
}

#[test]
fn handed_over_sections_take_at_most_three_quarters_of_the_time() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = guard(&server);
    forgiving_one_miss(|| ratio(&guard, bound(0.75, 3.0)));
}

#[test]
fn without_bounds_on_hand_over_they_take_less_still() {
    let _alone = alone();
    let server = RedisServer::start();
    let guard = builder(&server)
        .max_hand_overs(u32::MAX)
        .max_hand_over_time(Duration::MAX)
        .build()
        .unwrap();
    forgiving_one_miss(|| ratio(&guard, bound(0.65, 3.0)));
}

/// Another process whose threads enter and close one slot as often as they can.
struct Contender {
    child: Child,
    from: BufReader<ChildStdout>,
}

impl Contender {
    fn start(server: &RedisServer, prefix: &str, time: Duration, work: Duration) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_contender"))
            .args([&server.url(), prefix])
            .args([THREADS as u128, time.as_millis(), work.as_micros()].map(|n| n.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self { child, from };
        assert_eq!(this.line(), "ready");
        this
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it begin.
    fn go(&mut self) {
        drop(self.child.stdin.take());
    }

    fn entries(&mut self) -> u64 {
        self.line().parse().unwrap()
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two processes with 8 threads each, on one slot for 5 s.
fn shares(work: Duration) -> Result<(), String> {
    let server = RedisServer::start();
    let (prefix, time) = (unique_prefix(), Duration::from_secs(5));
    let mut processes = [(); 2].map(|()| Contender::start(&server, &prefix, time, work));
    for process in &mut processes {
        process.go();
    }
    let [first, second] = processes.each_mut().map(Contender::entries);
    let found = format!("{first} and {second} entries");
    println!("{found}");
    let share = first.min(second) as f64 / (first + second) as f64;
    if share >= bound(0.3, 0.1) {
        Ok(())
    } else {
        Err(found)
    }
}

#[test]
fn of_two_processes_each_gets_its_share() {
    let _alone = alone();
    forgiving_one_miss(|| shares(Duration::ZERO));
}
