//! The figures, as a table that a Markdown page takes as it is, and as JSON.

use std::fs;
use std::thread;

use guard_benches::samples::Samples;
use serde::Serialize;

/// What was measured of one thing. The fields without `skip` are the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    name: &'static str,
    median_ns: f64,
    floor_ns: f64,
    ratio: f64,
    best_peer_ratio: Option<f64>,
    #[serde(skip)]
    spread: Option<f64>,
    #[serde(skip)]
    unit: Unit,
}

/// What the figures of a row count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Time,
    /// Processor time a second.
    TimeASecond,
    Commands,
    CommandsASecond,
}

impl Row {
    /// A time of many rounds, beside its floor's.
    pub(crate) fn of(name: &'static str, samples: &Samples, floor: &Samples) -> Self {
        Self {
            spread: Some(samples.spread()),
            ..Self::counted(name, Unit::Time, samples.median(), floor.median())
        }
    }

    /// A figure that was taken once.
    pub(crate) fn counted(name: &'static str, unit: Unit, figure: f64, floor: f64) -> Self {
        Self {
            name,
            median_ns: figure,
            floor_ns: floor,
            ratio: figure / floor,
            best_peer_ratio: None,
            spread: None,
            unit,
        }
    }

    /// Sets the figure beside that of the quickest peer.
    pub(crate) fn beside(mut self, peers: &[&Samples]) -> Self {
        let best = peers.iter().map(|peer| peer.median()).reduce(f64::min);
        self.best_peer_ratio = best.map(|best| self.median_ns / best);
        self
    }
}

/// A larger spread comes from something else on the machine.
const DISTURBED: f64 = 0.4;

/// Says which figures are not to be relied on.
pub(crate) fn print_doubts(rows: &[Row]) {
    let disturbed = |row: &&Row| row.spread.is_some_and(|spread| spread > DISTURBED);
    let names: Vec<_> = rows.iter().filter(disturbed).map(|row| row.name).collect();
    if !names.is_empty() {
        eprintln!(
            "ratios: something else on this machine disturbed the rounds of {} (spread above {:.0} %): take another run",
            names.join(", "),
            100.0 * DISTURBED
        );
    }
}

/// Says on what the figures were taken.
pub(crate) fn print_machine(redis: &str) {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split(['-', '+']).next().unwrap_or_default().trim();
    println!("{cores} cores, Linux {kernel}, redis-server {redis} on loopback.\n");
}

/// Prints the table.
pub(crate) fn print_table(rows: &[Row]) {
    let head = [
        "name",
        "median",
        "floor",
        "ratio to floor",
        "ratio to best peer",
        "spread",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        lines.push([
            row.name.to_owned(),
            row.unit.show(row.median_ns),
            row.unit.show(row.floor_ns),
            ratio(row.ratio),
            row.best_peer_ratio.map_or_else(|| "–".to_owned(), ratio),
            row.spread.map_or_else(
                || "–".to_owned(),
                |spread| format!("{:.0} %", 100.0 * spread),
            ),
        ]);
    }
    let width: [usize; 6] = std::array::from_fn(|column| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    });
    for (number, line) in lines.iter().enumerate() {
        let [name, figures @ ..] = line;
        print!("| {name:<0$} |", width[0]);
        for (figure, width) in figures.iter().zip(&width[1..]) {
            print!(" {figure:>width$} |");
        }
        println!();
        if number == 0 {
            print!("|{}|", "-".repeat(width[0] + 2));
            for width in &width[1..] {
                print!("{}:|", "-".repeat(width + 1));
            }
            println!();
        }
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 0.1 {
        format!("{ratio:.4}")
    } else {
        format!("{ratio:.2}")
    }
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Self::Time => time(figure),
            Self::TimeASecond => format!("{}/s", time(figure)),
            Self::Commands if figure == 1.0 => "1 command".to_owned(),
            Self::Commands => format!("{figure:.0} commands"),
            Self::CommandsASecond => format!("{figure:.1}/s"),
        }
    }
}

/// A time, in the unit that suits it.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.0} ns"),
        1e3..1e6 => format!("{:.1} µs", nanos / 1e3),
        1e6..1e9 => format!("{:.2} ms", nanos / 1e6),
        _ => format!("{:.2} s", nanos / 1e9),
    }
}
