//! The sandbox: an ordinary directory in which shell commands run.
//!
//! ```text
//! <dir>/work      what commands see; kept from call to call
//! <dir>/calls     how many calls the sandbox has served: its state beside the files
//! <dir>/running   there while the sandbox runs
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{CallError, OnStep, Step};

/// A sandbox that was resumed or created. Dropping it stops and persists it if it runs, so that an error
/// or a panic in the middle of a call leaves it as a success does.
pub(crate) struct Sandbox<'a> {
    dir: PathBuf,
    calls: u64,
    running: bool,
    on_step: &'a OnStep,
}

impl<'a> Sandbox<'a> {
    /// Takes up the sandbox in `dir` where the call before left it, or creates it.
    pub(crate) fn resume_or_create(dir: &Path, on_step: &'a OnStep) -> io::Result<Self> {
        let calls = match fs::read_to_string(dir.join("calls")) {
            Ok(calls) => calls
                .trim_end()
                .parse()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        fs::create_dir_all(dir.join("work"))?;
        on_step(match calls {
            0 => Step::Creates,
            _ => Step::Resumes,
        });
        Ok(Self {
            dir: dir.to_owned(),
            calls,
            running: false,
            on_step,
        })
    }

    /// Starts it. It cannot run twice at once: that is what a guard must prevent. A real sandbox would also
    /// clean up here after a process that died in it.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        File::create_new(self.dir.join("running"))?;
        self.running = true;
        (self.on_step)(Step::Starts);
        Ok(())
    }

    /// Runs a shell command in it; answers what the command printed.
    pub(crate) fn sh(&mut self, command: &str) -> Result<String, CallError> {
        (self.on_step)(Step::Runs);
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.dir.join("work"))
            .stdin(Stdio::null())
            .output()?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(CallError::Command {
                status: output.status,
                stderr: text(output.stderr.trim_ascii_end()),
            })
        }
    }

    /// Stops and persists it. Dropping does the same, but can only log what goes wrong.
    pub(crate) fn release(mut self) -> io::Result<()> {
        self.stop_and_persist()
    }

    fn stop_and_persist(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.running) {
            return Ok(());
        }
        fs::remove_file(self.dir.join("running"))?;
        (self.on_step)(Step::Stops);
        let calls = self.calls.saturating_add(1);
        fs::write(self.dir.join("calls"), format!("{calls}\n"))?;
        (self.on_step)(Step::Persists);
        Ok(())
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.stop_and_persist() {
            log::error!(
                "the sandbox in {} is not saved: {error}",
                self.dir.display()
            );
        }
    }
}
