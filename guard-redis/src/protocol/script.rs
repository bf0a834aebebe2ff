//! Scripts: files beside the code, run by their digest.

use redis::{Cmd, cmd};

use crate::protocol::failure::Failure;

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

    /// The command that runs the script.
    pub(crate) fn call(&self, keys: &[&str], arguments: &[&[u8]]) -> Cmd {
        let count = keys.len().to_string();
        let words = ["EVALSHA", &self.digest, &count].into_iter();
        let words = words.chain(keys.iter().copied()).map(str::as_bytes);
        command(words.chain(arguments.iter().copied()))
    }

    /// The command that makes the script known to the server.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}

/// Whether the server does not know the script.
pub(crate) fn is_unknown(failure: &Failure) -> bool {
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
