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
        let mut call = cmd("EVALSHA");
        call.arg(&self.digest)
            .arg(keys.len())
            .arg(keys)
            .arg(arguments);
        call
    }

    fn load(&self) -> Cmd {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.code);
        load
    }
}
