//! What the command line asks for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Worker threads share the workspaces of a few agents; a guard keeps their jobs apart.

Usage: threaded_service [options]

  --redis URL      keep the jobs of several processes apart, by a Redis server
                   (default: those of this process only, in memory)
  --unguarded      use no guard, and see updates being lost
  --workspace DIR  work in DIR, which several processes may share
                   (default: a fresh directory, removed at the end)
  --threads N      worker threads, 1 to 1000 (default 8)
  --jobs N         jobs to do, 1 to 1000000 (default 400)
  --agents N       agents to do them for, 1 to 1000 (default 3)
  --think-ms N     how long a job thinks, 0 to 10000 ms (default 10)
  --help           print this

Exit code: 0 if all went well, 1 if updates were lost in spite of the guard or the
service failed, 2 for bad input. RUST_LOG=sandbox_guard=debug shows what the guard does.
";

/// What to do, and with what.
pub(crate) struct Options {
    pub(crate) redis: Option<String>,
    pub(crate) unguarded: bool,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) jobs: usize,
    pub(crate) agents: usize,
    pub(crate) think: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            redis: None,
            unguarded: false,
            workspace: None,
            threads: 8,
            jobs: 400,
            agents: 3,
            think: Duration::from_millis(10),
        }
    }
}

/// An argument that makes no sense. Its value is not shown: it may be an address with a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; --help shows what there is")]
pub(crate) struct UsageError(String);

impl Options {
    /// Reads the arguments, each `--name value` or `--name=value`; `None` asks for the help.
    pub(crate) fn parse(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Option<Self>, UsageError> {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut arg = Argument::new(arg, &mut args)?;
            match arg.name.as_str() {
                "--redis" => options.redis = Some(arg.text()?),
                "--workspace" => options.workspace = Some(arg.value()?.into()),
                "--threads" => options.threads = arg.number(1, 1000)?,
                "--jobs" => options.jobs = arg.number(1, 1_000_000)?,
                "--agents" => options.agents = arg.number(1, 1000)?,
                "--think-ms" => options.think = Duration::from_millis(arg.number(0, 10_000)?),
                "--unguarded" => options.unguarded = true,
                "--help" | "-h" => return Ok(None),
                _ => return Err(arg.wrong("is not an option")),
            }
            arg.end()?;
        }
        Ok(Some(options))
    }
}

/// An option on the command line, and where its value comes from.
struct Argument<'a, I> {
    name: String,
    attached: Option<OsString>,
    rest: &'a mut I,
}

impl<'a, I: Iterator<Item = OsString>> Argument<'a, I> {
    fn new(arg: OsString, rest: &'a mut I) -> Result<Self, UsageError> {
        let refuse = |_| UsageError("an option that is not Unicode".to_owned());
        let text = arg.into_string().map_err(refuse)?;
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.into())),
            None => (text, None),
        };
        Ok(Self {
            name,
            attached,
            rest,
        })
    }

    fn value(&mut self) -> Result<OsString, UsageError> {
        let value = self.attached.take().or_else(|| self.rest.next());
        value
            .filter(|value| !value.is_empty())
            .ok_or_else(|| self.wrong("needs a value"))
    }

    fn text(&mut self) -> Result<String, UsageError> {
        let value = self.value()?.into_string();
        value.map_err(|_| self.wrong("needs a value in Unicode"))
    }

    fn number<N: TryFrom<u64>>(&mut self, least: u64, most: u64) -> Result<N, UsageError> {
        let number = self.text()?.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| self.wrong(&format!("needs a whole number from {least} to {most}")))
    }

    /// Refuses a value that the option did not take.
    fn end(self) -> Result<(), UsageError> {
        match self.attached {
            Some(_) => Err(self.wrong("takes no value")),
            None => Ok(()),
        }
    }

    fn wrong(&self, what: &str) -> UsageError {
        // Something that does not look like an option may be an address with a password.
        if self.name.starts_with("--") {
            UsageError(format!("`{}` {what}", self.name))
        } else {
            UsageError("an argument that is not an option".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, UsageError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    fn refusal(line: &str) -> String {
        parse(line).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn options_may_be_given_in_either_form() {
        let options = parse("--threads 2 --redis=redis://h/?a=b --think-ms=0 --unguarded");
        let options = options.unwrap().unwrap();
        assert_eq!(options.threads, 2);
        assert_eq!(options.redis.as_deref(), Some("redis://h/?a=b"));
        assert_eq!(options.think, Duration::ZERO);
        assert!(options.unguarded);
        assert_eq!(options.jobs, Options::default().jobs);
    }

    #[test]
    fn help_needs_nothing_else_to_be_right() {
        assert!(parse("--help --nonsense").unwrap().is_none());
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        for line in [
            "--threads",
            "--threads 0",
            "--threads -1",
            "--threads 99999999999999999999",
            "--threads= --jobs 1",
        ] {
            assert!(refusal(line).starts_with("`--threads` needs "), "{line}");
        }
        assert!(refusal("--unguarded=yes").contains("takes no value"));
        assert!(refusal("--nonsense 1").contains("`--nonsense` is not an option"));
    }

    #[test]
    fn a_password_is_in_no_message() {
        for line in [
            "redis://:secret@h",
            "--redsi=redis://:secret@h",
            "--unguarded=redis://:secret@h",
            "-redis=redis://:secret@h",
        ] {
            let text = refusal(line);
            assert!(!text.is_empty() && !text.contains("secret"), "{text}");
        }
    }
}
