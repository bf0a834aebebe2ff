//! The guard wired into the builder of an agent harness.
//!
//! ```text
//! cargo run --release --example harness_builder
//! ```
//!
//! Several threads call the same agent at once. Each call runs a shell command in the agent's sandbox, an
//! ordinary directory here: one call succeeds, the command of another fails, and a third panics half-way.
//! The guard lets them in one after the other, and the slot is free again whatever became of them.
//!
//! `harness.rs` shows the wiring, `sandbox.rs` what is being guarded.

mod harness;
mod sandbox;
mod timeline;

use std::any::Any;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use guard_core::{IsolationScope, RuntimeContext, SandboxExecutionGuard, SandboxIsolationKey};
use guard_memory::MemorySandboxExecutionGuard;

use harness::{CallError, HarnessAgent, SandboxFilesystemSpec};
use timeline::Timeline;

type AnyError = Box<dyn Error + Send + Sync>;

/// One of the calls that are made at once.
type Call = fn(&HarnessAgent, &RuntimeContext) -> Result<String, CallError>;

#[expect(clippy::panic, reason = "one call shows what a panic does")]
const CALLS: [(&str, Call); 4] = [
    ("succeeds", |agent, context| {
        agent.call(context, "echo one >> notes; sleep 0.05; echo done")
    }),
    ("fails", |agent, context| {
        agent.call(context, "sleep 0.05; echo 'out of ideas' >&2; exit 3")
    }),
    ("panics", |agent, context| {
        agent.call_with(context, |sandbox| {
            sandbox.sh("echo two >> notes; sleep 0.05")?;
            panic!("a tool of the agent panicked")
        })
    }),
    ("succeeds too", |agent, context| {
        agent.call(context, "echo three >> notes; sleep 0.05; echo done")
    }),
];

/// What came of the calls.
struct Outcome {
    timeline: Timeline,
    /// How each call ended, in words.
    endings: Vec<String>,
    /// Whether the slot was free after them.
    free: bool,
    /// What the sandbox remembers of them.
    notes: String,
}

/// Builds an agent, and makes all calls at once in sandboxes below `root`.
fn make_calls(guard: Arc<dyn SandboxExecutionGuard>, root: &Path) -> Result<Outcome, AnyError> {
    let timeline = Timeline::default();
    let agent = HarnessAgent::builder()
        .name("code-agent")
        .filesystem(
            SandboxFilesystemSpec::new(root)
                .isolation_scope(IsolationScope::Agent)
                .execution_guard(Arc::clone(&guard)),
        )
        .on_step(timeline.recorder())
        .build()?;
    let context = RuntimeContext::new().with_session_id("session-1");

    let endings = thread::scope(|scope| {
        let calls: Vec<_> = CALLS
            .iter()
            .map(|(name, call)| {
                let thread = thread::Builder::new().name((*name).to_owned());
                thread.spawn_scoped(scope, || call(&agent, &context))
            })
            .collect();
        calls
            .into_iter()
            .map(|call| Ok(ending(call?.join())))
            .collect::<io::Result<Vec<_>>>()
    })?;

    let key = SandboxIsolationKey::new(IsolationScope::Agent, "code-agent")?;
    let free = guard.try_enter_now(&key)?.is_some();
    let notes = agent.call(&context, "cat notes || true")?;
    Ok(Outcome {
        timeline,
        endings,
        free,
        notes,
    })
}

fn ending(call: thread::Result<Result<String, CallError>>) -> String {
    match call {
        Ok(Ok(output)) => format!("printed {:?}", output.trim_end()),
        Ok(Err(error)) => error.to_string(),
        Err(payload) => format!("panicked: {}", message(&*payload)),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload.downcast_ref().copied().unwrap_or("(no message)")
}

/// Shows the calls; answers whether the guard kept its word.
fn show() -> Result<bool, AnyError> {
    // Any other guard goes here: the harness does not know which it is. Its `lease_ttl`, 30 minutes unless
    // it is set, has to exceed the longest call.
    let guard = Arc::new(MemorySandboxExecutionGuard::builder().build()?);
    let root = tempfile::tempdir()?;
    let outcome = make_calls(guard, root.path())?;
    let good = outcome.free && outcome.timeline.overlaps() == 0;

    let mut out = io::stdout().lock();
    writeln!(out, "{}", outcome.timeline)?;
    for ((name, _), ending) in CALLS.iter().zip(&outcome.endings) {
        writeln!(out, "{name:<14}{ending}")?;
    }
    writeln!(out, "\nthe notes they left: {:?}", outcome.notes)?;
    writeln!(out, "overlaps: {}", outcome.timeline.overlaps())?;
    writeln!(out, "slot free afterwards: {}", outcome.free)?;
    writeln!(out, "verdict: {}", if good { "ok" } else { "FAILED" })?;
    Ok(good)
}

fn main() -> Result<ExitCode, AnyError> {
    env_logger::init();
    Ok(match show()? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use guard_core::NoopGuard;

    use super::*;

    #[test]
    fn guarded_calls_never_overlap_and_leave_the_slot_free() {
        let guard = MemorySandboxExecutionGuard::builder().build().unwrap();
        let root = tempfile::tempdir().unwrap();
        let outcome = make_calls(Arc::new(guard.clone()), root.path()).unwrap();
        assert_eq!(outcome.timeline.overlaps(), 0, "{}", outcome.timeline);
        assert!(outcome.free && guard.holders().is_empty());

        let [succeeds, fails, panics, succeeds_too] = &*outcome.endings else {
            panic!("{:?}", outcome.endings);
        };
        assert_eq!(succeeds, "printed \"done\"");
        assert!(fails.contains("exit status: 3") && fails.contains("out of ideas"));
        assert_eq!(panics, "panicked: a tool of the agent panicked");
        assert_eq!(succeeds_too, "printed \"done\"");
        let mut notes: Vec<_> = outcome.notes.lines().collect();
        notes.sort_unstable();
        assert_eq!(notes, ["one", "three", "two"]);
    }

    #[test]
    fn calls_without_a_guard_overlap() {
        let root = tempfile::tempdir().unwrap();
        let outcome = make_calls(Arc::new(NoopGuard), root.path()).unwrap();
        assert!(outcome.timeline.overlaps() > 0, "{}", outcome.timeline);
    }
}
