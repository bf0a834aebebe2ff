//! Pictures of what the table hides: what is measured for them.

use std::path::Path;
use std::time::Duration;

use guard_benches::crowd::{contended, each_together, waiting};
use guard_benches::floor;
use guard_benches::guards;
use guard_benches::handover::Handover;
use guard_benches::samples::{Samples, Turn, nanos, take_turns};
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::monitor::Monitor;
use guard_store_tests::redis_server::RedisServer;

use crate::chart::{Axis, Chart, Failure, Line, SeriesLabelPosition};
use crate::measure;
use crate::progress::Stage;
use crate::table::time;

const THREADS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const WAITERS: [usize; 6] = [1, 4, 16, 64, 256, 512];
const WAIT: Duration = Duration::from_secs(4);
/// Sections of all threads together.
const SECTIONS: usize = 1_024;
/// And of the one that works on the floor.
const FLOOR_SECTIONS: usize = SECTIONS / 4;

/// Measures what the pictures show, and draws them into the folder.
pub(crate) fn draw(folder: &Path) -> Result<(), Failure> {
    let server = RedisServer::start();
    handover(&server).draw(&folder.join("handover.svg"))?;
    let guards = [
        ("defaults", guards::redis(&server).build().unwrap()),
        (
            "bounds of hand-over lifted",
            guards::redis_unbounded(&server).build().unwrap(),
        ),
    ];
    sections(&server, &guards).draw(&folder.join("section.svg"))?;
    commands(&server, &guards).draw(&folder.join("commands.svg"))?;
    waiters().draw(&folder.join("waiters.svg"))
}

/// Which part of the hand-overs was over within which time.
fn handover(server: &RedisServer) -> Chart {
    const ROUNDS: usize = 40;
    let [ping, processes, threads, published] = measure::handovers(server);
    let mut stage = Stage::begin("hand-over by polling");
    let turns = [Handover::by_polling(server).turn()];
    let [polling] = take_turns(ROUNDS, turns, |round| stage.at(round, ROUNDS));
    let line = |name, samples: &Samples| {
        let sorted = samples.sorted().iter().enumerate();
        let all = samples.sorted().len() as f64;
        let points = sorted.map(|(place, time)| (*time, 100.0 * (place + 1) as f64 / all));
        Line::new(name, points.collect())
    };
    Chart {
        title: "From the holder's close to the next holder's entry",
        x: Axis::powers_of_ten("time", 1e4, 1e9, time),
        y: Axis::from_zero("percent of hand-overs that took no longer", 100.0),
        legend: SeriesLabelPosition::Coordinate(285, 110),
        lines: vec![
            line("PING", &ping),
            line("guard, one process", &threads),
            line("guard, two processes", &processes),
            line("pub/sub, bare connections", &published),
            line("polling at 500 ms, bare connection", &polling),
        ],
    }
}

type Named = (&'static str, RedisSandboxExecutionGuard);

/// Wall time of a section as threads on one slot grow.
fn sections(server: &RedisServer, guards: &[Named; 2]) -> Chart {
    const ROUNDS: usize = 7;
    let mut stage = Stage::begin("sections of 1 to 512 threads");
    let mut lines = guards
        .each_ref()
        .map(|(name, _)| Line::new(name, Vec::new()));
    let mut floors = Line::new("floor: one bare connection", Vec::new());
    for (step, threads) in THREADS.into_iter().enumerate() {
        let by = |guard| -> Turn<'_> {
            Box::new(move || nanos(contended(guard, threads, SECTIONS)) / SECTIONS as f64)
        };
        // In a thread that was just started, too: one that runs all the time keeps to another processor.
        let one = each_together(1, FLOOR_SECTIONS, |_| floor::redis(server));
        let turns = [by(&guards[0].1), by(&guards[1].1), one];
        let [defaults, unbounded, floor] = take_turns(ROUNDS, turns, |_| ());
        for (line, samples) in lines.iter_mut().zip([defaults, unbounded]) {
            line.points.push((threads as f64, samples.median() / 1e3));
        }
        floors.points.push((threads as f64, floor.median() / 1e3));
        stage.at(step + 1, THREADS.len());
    }
    let mut lines = Vec::from(lines);
    lines.push(floors);
    Chart {
        title: "Wall time of a section, threads of one process on one slot",
        x: Axis::powers_of_two("threads", &THREADS),
        y: Axis::above("µs a section", &lines),
        legend: SeriesLabelPosition::UpperLeft,
        lines,
    }
}

/// Commands of a section as threads on one slot grow.
fn commands(server: &RedisServer, guards: &[Named; 2]) -> Chart {
    let mut stage = Stage::begin("commands of 1 to 512 threads");
    let mut lines = guards
        .each_ref()
        .map(|(name, _)| Line::new(name, Vec::new()));
    for (step, threads) in THREADS.into_iter().enumerate() {
        for (line, (_, guard)) in lines.iter_mut().zip(guards) {
            let monitor = Monitor::start(server);
            contended(guard, threads, SECTIONS);
            let commands = monitor.stop().len() as f64 / SECTIONS as f64;
            line.points.push((threads as f64, commands));
        }
        stage.at(step + 1, THREADS.len());
    }
    let lines = Vec::from(lines);
    Chart {
        title: "Commands a section, threads of one process on one slot",
        x: Axis::powers_of_two("threads", &THREADS),
        y: Axis::above("commands a section", &lines),
        legend: SeriesLabelPosition::UpperLeft,
        lines,
    }
}

/// Commands a second as threads grow that wait for somebody else's slot.
fn waiters() -> Chart {
    let server = RedisServer::start();
    let mut stage = Stage::begin("commands of 1 to 512 waiters");
    let mut line = Line::new("guard, all waiters together", Vec::new());
    for (step, waiters) in WAITERS.into_iter().enumerate() {
        let commands = waiting(&server, waiters, WAIT) as f64 / WAIT.as_secs_f64();
        line.points.push((waiters as f64, commands));
        stage.at(step + 1, WAITERS.len());
    }
    let lines = vec![line];
    Chart {
        title: "Commands a second, threads of one process that wait in vain",
        x: Axis::powers_of_two("waiters", &THREADS),
        y: Axis::above("commands a second", &lines),
        legend: SeriesLabelPosition::UpperLeft,
        lines,
    }
}
