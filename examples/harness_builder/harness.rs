//! A small agent harness, and where the guard has its place in it.
//!
//! Two things are to be kept in order, on success, error and panic alike: the guard is entered *before* the
//! sandbox is resumed or created, and the lease is closed *after* the sandbox is stopped and persisted.
//! [`HarnessAgent::call_with`] gets this from scopes: [`run`](SandboxExecutionGuardExt::run) spans the
//! guarded window, and the sandbox lives in it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use guard_core::{
    ConfigError, GuardError, IsolationScope, NoopGuard, RuntimeContext, SandboxExecutionGuard,
    SandboxExecutionGuardExt, SandboxIsolationKey, Wait,
};

use crate::sandbox::Sandbox;

/// Where an agent's sandboxes are, who shares one, and what keeps those apart who do.
pub(crate) struct SandboxFilesystemSpec {
    root: PathBuf,
    scope: Option<IsolationScope>,
    guard: Arc<dyn SandboxExecutionGuard>,
}

impl SandboxFilesystemSpec {
    /// Keeps the sandboxes below `root`; nothing is guarded yet.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            scope: None,
            guard: Arc::new(NoopGuard),
        }
    }

    /// Who shares a sandbox. Default: the calls of a user.
    pub(crate) fn isolation_scope(mut self, scope: IsolationScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// What lets in one call at a time where a sandbox is shared.
    pub(crate) fn execution_guard(mut self, guard: Arc<dyn SandboxExecutionGuard>) -> Self {
        self.guard = guard;
        self
    }

    /// The directory of a key's sandbox. A key's value may be any text, `..` too.
    fn dir_of(&self, key: &SandboxIsolationKey) -> PathBuf {
        let encode = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
            _ => format!("%{byte:02x}"),
        };
        let value: String = key.value().bytes().map(encode).collect();
        self.root.join(format!("{}-{value}", key.scope()))
    }
}

/// An agent whose calls run in a sandbox.
pub(crate) struct HarnessAgent {
    name: String,
    filesystem: SandboxFilesystemSpec,
    on_step: OnStep,
}

impl HarnessAgent {
    /// Starts building an agent.
    pub(crate) fn builder() -> HarnessAgentBuilder {
        HarnessAgentBuilder::default()
    }

    /// Runs a shell command in the sandbox; answers what it printed.
    pub(crate) fn call(
        &self,
        context: &RuntimeContext,
        command: &str,
    ) -> Result<String, CallError> {
        self.call_with(context, |sandbox| sandbox.sh(command))
    }

    /// Works in the sandbox, alone.
    pub(crate) fn call_with<T>(
        &self,
        context: &RuntimeContext,
        work: impl FnOnce(&mut Sandbox<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let filesystem = &self.filesystem;
        let key = SandboxIsolationKey::resolve(filesystem.scope, context, Some(&self.name))?;
        let Some(key) = key else {
            // Nobody can come back to a sandbox without a key: it is this call's own and not kept.
            let dir = tempfile::tempdir_in(&filesystem.root)?;
            return self.work_in(dir.path(), work);
        };
        (self.on_step)(Step::Waits);
        filesystem.guard.run(&key, Wait::forever(), |_lease| {
            let _window = Window::open(&self.on_step);
            self.work_in(&filesystem.dir_of(&key), work)
        })?
    }

    /// Resumes or creates the sandbox, and releases it whatever `work` does.
    fn work_in<T>(
        &self,
        dir: &Path,
        work: impl FnOnce(&mut Sandbox<'_>) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut sandbox = Sandbox::resume_or_create(dir, &self.on_step)?;
        sandbox.start()?;
        let answer = work(&mut sandbox)?;
        sandbox.release()?;
        Ok(answer)
    }
}

/// Builds a [`HarnessAgent`].
#[derive(Default)]
pub(crate) struct HarnessAgentBuilder {
    name: Option<String>,
    filesystem: Option<SandboxFilesystemSpec>,
    on_step: Option<OnStep>,
}

impl HarnessAgentBuilder {
    /// The agent's name, which is its id in the isolation scope `Agent`.
    pub(crate) fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Where its sandboxes are.
    pub(crate) fn filesystem(mut self, filesystem: SandboxFilesystemSpec) -> Self {
        self.filesystem = Some(filesystem);
        self
    }

    /// Who is told of each step of a call.
    pub(crate) fn on_step(mut self, on_step: impl Fn(Step) + Send + Sync + 'static) -> Self {
        self.on_step = Some(Box::new(on_step));
        self
    }

    /// Makes the agent.
    pub(crate) fn build(self) -> Result<HarnessAgent, ConfigError> {
        let missing = |setting| ConfigError::setting(setting, "it is missing");
        Ok(HarnessAgent {
            name: self.name.ok_or_else(|| missing("name"))?,
            filesystem: self.filesystem.ok_or_else(|| missing("filesystem"))?,
            on_step: self.on_step.unwrap_or_else(|| Box::new(|_| {})),
        })
    }
}

/// Why a call did not bring what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The agent's name or an id in the context cannot be a key.
    #[error("the call cannot be given a sandbox")]
    Key(#[from] ConfigError),
    /// The guard did not let the call in.
    #[error("the call did not get its sandbox")]
    Guard(#[from] GuardError),
    /// The sandbox itself failed.
    #[error("the sandbox failed")]
    Sandbox(#[from] io::Error),
    /// The command failed.
    #[error("the command ended with {status}: {stderr}")]
    Command { status: ExitStatus, stderr: String },
}

/// Who is told of each step of a call.
pub(crate) type OnStep = Box<dyn Fn(Step) + Send + Sync>;

/// A step of a call, in the order in which they follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Waits,
    Enters,
    Creates,
    Resumes,
    Starts,
    Runs,
    Stops,
    Persists,
    Leaves,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits => "waits for the slot",
            Self::Enters => "enters the slot",
            Self::Creates => "  creates the sandbox",
            Self::Resumes => "  resumes the sandbox",
            Self::Starts => "  starts it",
            Self::Runs => "    runs a command",
            Self::Stops => "  stops it",
            Self::Persists => "  persists it",
            Self::Leaves => "leaves the slot",
        })
    }
}

/// Tells of the guarded window, whichever way it ends. The harness itself does not need it.
struct Window<'a>(&'a OnStep);

impl<'a> Window<'a> {
    fn open(on_step: &'a OnStep) -> Self {
        on_step(Step::Enters);
        Self(on_step)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        (self.0)(Step::Leaves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leads_out_of_the_root() {
        let filesystem = SandboxFilesystemSpec::new("/root-dir");
        let key = SandboxIsolationKey::new(IsolationScope::User, "../a/b").unwrap();
        assert_eq!(
            filesystem.dir_of(&key),
            Path::new("/root-dir/user-%2e%2e%2fa%2fb")
        );
    }

    #[test]
    fn a_call_without_a_key_has_a_sandbox_of_its_own_that_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let filesystem =
            SandboxFilesystemSpec::new(root.path()).isolation_scope(IsolationScope::Session);
        let agent = HarnessAgent::builder()
            .name("a")
            .filesystem(filesystem)
            .build()
            .unwrap();
        let answer = agent.call(&RuntimeContext::new(), "echo hello");
        assert_eq!(answer.unwrap(), "hello\n");
        assert_eq!(root.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn an_agent_needs_a_name_and_a_filesystem() {
        let error = HarnessAgent::builder().name("a").build().err().unwrap();
        assert!(error.to_string().contains("`filesystem`"), "{error}");
    }
}
