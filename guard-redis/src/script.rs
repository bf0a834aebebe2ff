//! Scripts: files beside the code, run by their digest.

use redis::{Cmd, FromRedisValue, cmd};

use crate::session::{Failure, Session};

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
    pub(crate) fn run<T: FromRedisValue>(
        &self,
        session: &mut Session<'_>,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<T, Failure> {
        let call = self.call(keys, arguments);
        match session.call(&call) {
            Err(Failure::Answer(error)) if error.code() == Some("NOSCRIPT") => {
                session.call::<()>(&self.load())?;
                session.call(&call)
            }
            result => result,
        }
    }

    /// The command that runs the script.
    pub(crate) fn call(&self, keys: &[&str], arguments: &[&str]) -> Cmd {
        let count = keys.len().to_string();
        let words = ["EVALSHA", &self.digest, &count].into_iter();
        command(
            words
                .chain(keys.iter().copied())
                .chain(arguments.iter().copied()),
        )
    }

    fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

/// A command of these words, whose buffers need not grow.
pub(crate) fn command<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Cmd {
    let size = words.clone().map(str::len).sum();
    let mut command = Cmd::with_capacity(words.clone().count(), size);
    for word in words {
        command.arg(word);
    }
    command
}
