//! Ratios side by side in one run: what the guards cost, beside the floor and the peers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a command that measures ends when something is wrong"
)]

mod arguments;
mod chart;
mod measure;
mod plots;
mod progress;
mod table;

use std::env;
use std::fs::{self, File};
use std::io;
use std::process::{Command, ExitCode};

use arguments::{Arguments, USAGE};
use guard_benches::other_process;
use table::{Row, print_doubts, print_machine, print_table};

fn main() -> ExitCode {
    if other_process::was_the_holder() {
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse(env::args_os().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("ratios: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ratios: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let version = redis_version()?;
    // Before a minute has gone into what could then not be written.
    let json = match &arguments.json {
        Some(path) => Some(File::create(path).map_err(|error| said(path.display(), error))?),
        None => None,
    };
    if let Some(folder) = &arguments.plots {
        fs::create_dir_all(folder).map_err(|error| said(folder.display(), error))?;
    }
    if cfg!(debug_assertions) {
        eprintln!("ratios: this build is not optimised; use `cargo run --release`");
    }
    let rows = measure::all();
    print_machine(&version);
    print_table(&rows);
    print_doubts(&rows);
    if let Some(file) = json {
        write_json(&file, &rows).map_err(|error| said("JSON", error))?;
    }
    if let Some(folder) = &arguments.plots {
        plots::draw(folder).map_err(|error| said(folder.display(), error))?;
    }
    Ok(())
}

fn said(what: impl std::fmt::Display, error: impl std::fmt::Display) -> String {
    format!("{what}: {error}")
}

/// The installed server's version.
fn redis_version() -> Result<String, String> {
    first_line("redis-cli")?;
    let line = first_line("redis-server")?;
    let version = line.split(' ').find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or(&line).to_owned())
}

/// What a tool says of its version.
fn first_line(tool: &str) -> Result<String, String> {
    let output = Command::new(tool).arg("--version").output();
    let output = output.map_err(|error| {
        format!("`{tool}` does not run ({error}); on Debian: apt-get install redis-server")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn write_json(file: &File, rows: &[Row]) -> io::Result<()> {
    serde_json::to_writer_pretty(file, rows)?;
    io::Write::write_all(&mut &*file, b"\n")
}
