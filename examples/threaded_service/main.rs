//! A service whose worker threads share the workspaces of a few agents, one at a time.
//!
//! ```text
//! cargo run --release --example threaded_service
//! cargo run --release --example threaded_service -- --unguarded
//! cargo run --release --example threaded_service -- --redis redis://localhost --workspace /tmp/shared
//! ```
//!
//! Each job reads a ledger in its agent's workspace, thinks, and writes the ledger back with one more
//! update. Two jobs of an agent at once would lose one of their updates; the guard keeps them apart. Start
//! the third command several times at once, and it keeps the processes apart too.

mod options;
mod report;
mod service;
mod workspace;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use guard_core::{ConfigError, NoopGuard, SandboxExecutionGuard};
use guard_memory::MemorySandboxExecutionGuard;
use guard_redis::RedisSandboxExecutionGuard;

use options::{HELP, Options};
use report::Report;
use service::{AnyError, Service};
use workspace::Workspace;

/// Longer than any job takes, and no longer than an agent may be blocked if this process is killed.
const LEASE_TTL: Duration = Duration::from_secs(60);

/// The exit code of a run that lost updates or could not do its jobs.
const FAILED: u8 = 1;
/// The exit code of a run that was asked for something that makes no sense.
const BAD_INPUT: u8 = 2;

/// Chooses what keeps the jobs of an agent apart. The rest of the service does not know which it is.
fn choose_guard(
    options: &Options,
    process_name: &str,
) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
    if options.unguarded {
        return Ok(Arc::new(NoopGuard));
    }
    if let Some(url) = &options.redis {
        return Ok(Arc::new(
            RedisSandboxExecutionGuard::builder(url.as_str())
                .lease_ttl(LEASE_TTL)
                .owner(process_name)
                .build()?,
        ));
    }
    Ok(Arc::new(
        MemorySandboxExecutionGuard::builder()
            .lease_ttl(LEASE_TTL)
            .build()?,
    ))
}

/// Runs the service, and looks at what is left of its work. A failure on the way comes beside the report.
fn serve(options: &Options) -> Result<(Report, Option<AnyError>), AnyError> {
    let process_name = process_name();
    let guard = choose_guard(options, &process_name)?;
    let workspace = Workspace::open(options.workspace.as_deref())?;
    let service = Service::new(Arc::clone(&guard), &workspace, options, &process_name)?;

    let started = Instant::now();
    let (tally, failure) = service.run(options.threads);
    let took = started.elapsed();
    guard.close();

    let mut report = Report::new(!options.unguarded, options.jobs, tally, took);
    for ledger in service.ledgers() {
        let ledger = ledger?;
        report.survived += ledger.updates_of(&process_name);
        report.in_files += ledger.updates();
    }
    Ok((report, failure))
}

/// A name that no other process has, on this host or another: it signs this process's updates.
fn process_name() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("service-{}-{:x}", process::id(), now.as_nanos())
}

fn main() -> ExitCode {
    // RUST_LOG=sandbox_guard=debug shows what the guard does.
    let log = env_logger::Env::default().default_filter_or("warn");
    env_logger::Builder::from_env(log).init();

    let options = match Options::parse(env::args_os().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print(HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&error, BAD_INPUT),
    };
    match serve(&options) {
        Ok((report, failure)) => {
            print(&report.to_string());
            match failure {
                Some(error) => fail(&*error, FAILED),
                None if report.is_good() => ExitCode::SUCCESS,
                None => ExitCode::from(FAILED),
            }
        }
        Err(error) => {
            let exit_code = match error.downcast_ref() {
                Some(ConfigError::InvalidSetting { .. }) => BAD_INPUT,
                _ => FAILED,
            };
            fail(&*error, exit_code)
        }
    }
}

/// Prints an error and what it came from.
fn fail(error: &dyn Error, exit_code: u8) -> ExitCode {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = format!("\n  caused by: {error}");
        // Some libraries say the same at several levels.
        if !text.ends_with(&line) {
            text.push_str(&line);
        }
        cause = error.source();
    }
    text.push('\n');
    // Nobody is left to be told if this fails.
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(exit_code)
}

/// Prints like `print!`, which would panic if the reader of a pipe had gone.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(unguarded: bool) -> Options {
        Options {
            unguarded,
            jobs: 60,
            think: Duration::from_millis(3),
            ..Options::default()
        }
    }

    #[test]
    fn with_the_guard_every_update_survives() {
        let (report, failure) = serve(&small(false)).unwrap();
        assert!(failure.is_none());
        assert_eq!((report.survived, report.in_files), (60, 60), "{report}");
    }

    #[test]
    fn without_it_updates_are_lost() {
        let (report, failure) = serve(&small(true)).unwrap();
        assert!(failure.is_none());
        assert!(report.in_files < 60, "{report}");
    }

    #[test]
    fn a_server_that_is_away_is_an_error_without_its_password() {
        let options = Options {
            redis: Some("redis://:secret@127.0.0.1:1".to_owned()),
            ..Options::default()
        };
        let error = serve(&options).map(|_| ()).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("127.0.0.1:1") && !text.contains("secret"),
            "{text}"
        );
    }
}
