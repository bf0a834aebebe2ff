//! Scripts: files beside the code, run by their digest.

use redis::{Cmd, cmd};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::session::Session;

/// A script and its digest.
pub(crate) struct Script {
    code: &'static str,
    digest: String,
}

impl Script {
    pub(crate) fn new(code: &'static str) -> Self {
        let digest = redis::Script::new(code).get_hash().to_owned();
        Self { code, digest }
    }

    /// Runs the script; loads it first if the server does not know it.
    pub(crate) fn run<T: Answer>(
        &self,
        session: &mut Session<'_>,
        keys: &[&str],
        arguments: &[&[u8]],
    ) -> Result<T, Failure> {
        let call = self.call(keys, arguments);
        match session.ask(&call) {
            Err(failure) if is_unknown(&failure) => {
                self.load(session)?;
                session.ask(&call)
            }
            result => result,
        }
    }

    /// Runs the script by several [calls](Self::call), which are all sent before the first answer is read.
    pub(crate) fn run_all<T: Answer>(
        &self,
        session: &mut Session<'_>,
        calls: &[&Cmd],
    ) -> Result<Vec<Result<T, Failure>>, Failure> {
        let answers = session.ask_all(calls)?;
        if !answers.iter().any(|it| it.as_ref().is_err_and(is_unknown)) {
            return Ok(answers);
        }
        self.load(session)?;
        session.ask_all(calls)
    }

    /// The command that runs the script.
    pub(crate) fn call(&self, keys: &[&str], arguments: &[&[u8]]) -> Cmd {
        let count = keys.len().to_string();
        let words = ["EVALSHA", &self.digest, &count].into_iter();
        let words = words.chain(keys.iter().copied()).map(str::as_bytes);
        command(words.chain(arguments.iter().copied()))
    }

    fn load(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        session.call::<Vec<u8>>(&load).map(drop)
    }
}

/// Whether the server does not know the script.
fn is_unknown(failure: &Failure) -> bool {
    matches!(failure, Failure::Answer(error) if error.code() == Some("NOSCRIPT"))
}

/// A command of these words, whose buffers need not grow.
pub(crate) fn command<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Cmd {
    let size = words.clone().map(<[u8]>::len).sum();
    let mut command = Cmd::with_capacity(words.clone().count(), size);
    for word in words {
        command.arg(word);
    }
    command
}
