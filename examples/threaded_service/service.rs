//! The service: worker threads that take jobs and enter the guard for each.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use guard_core::{GuardError, IsolationScope, SandboxExecutionGuard, SandboxIsolationKey};

use crate::options::Options;
use crate::report::Tally;
use crate::workspace::{AgentDir, FileError, Ledger, Workspace};

/// An error of anything.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// How long a job waits for its agent before the service takes it for a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the worker threads share.
pub(crate) struct Service {
    guard: Arc<dyn SandboxExecutionGuard>,
    agents: Vec<Agent>,
    jobs: usize,
    next_job: AtomicUsize,
    think: Duration,
    process_name: String,
}

/// Somebody to do jobs for.
struct Agent {
    key: SandboxIsolationKey,
    dir: AgentDir,
}

impl Service {
    /// Prepares the agents' workspaces. `process_name` signs the updates.
    pub(crate) fn new(
        guard: Arc<dyn SandboxExecutionGuard>,
        workspace: &Workspace,
        options: &Options,
        process_name: &str,
    ) -> Result<Self, AnyError> {
        let agent = |n| -> Result<_, AnyError> {
            let id = format!("example-agent-{n}");
            let dir = workspace.agent(&id)?;
            let key = SandboxIsolationKey::new(IsolationScope::Agent, id)?;
            Ok(Agent { key, dir })
        };
        Ok(Self {
            guard,
            agents: (1..=options.agents).map(agent).collect::<Result<_, _>>()?,
            jobs: options.jobs,
            next_job: AtomicUsize::new(0),
            think: options.think,
            process_name: process_name.to_owned(),
        })
    }

    /// Does jobs until none is left or the service shuts down.
    fn work(&self, tally: &mut Tally) -> Result<(), AnyError> {
        while let Some(agent) = self.take_job() {
            let asked = Instant::now();
            let lease = match self.guard.try_enter_for(&agent.key, PATIENCE) {
                Ok(lease) => lease,
                Err(GuardError::Closed { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let waited = asked.elapsed();

            // Now the workspace is ours. Every way out closes the lease, `?` and a panic too.
            let mut ledger = agent.dir.read()?;
            thread::sleep(self.think);
            ledger.add_update_of(&self.process_name);
            if !lease.is_held() {
                return Err(format!("the lease of {} ended before its job did", agent.key).into());
            }
            agent.dir.write(&ledger)?;

            lease.close();
            tally.add(waited, lease.held_for());
        }
        Ok(())
    }

    /// The next job. All there is to know of it is its agent.
    fn take_job(&self) -> Option<&Agent> {
        let job = self.next_job.fetch_add(1, Ordering::Relaxed);
        let agent = job.checked_rem(self.agents.len())?;
        self.agents.get(agent).filter(|_| job < self.jobs)
    }

    /// Does all jobs with so many threads. The first failure comes beside what was done.
    pub(crate) fn run(&self, threads: usize) -> (Tally, Option<AnyError>) {
        let mut all = Tally::default();
        let mut failure = None;
        thread::scope(|scope| {
            let workers: Vec<_> = (1..=threads)
                .map(|n| thread::Builder::new().name(format!("worker-{n}")))
                .map(|thread| thread.spawn_scoped(scope, || self.run_worker()))
                .collect();
            for worker in workers {
                let (tally, error) = match worker.map(ScopedJoinHandle::join) {
                    Ok(Ok(done)) => done,
                    Ok(Err(_)) => (Tally::default(), Some("a worker panicked".into())),
                    Err(error) => (Tally::default(), Some(error.into())),
                };
                all.merge(tally);
                failure = failure.take().or(error);
            }
        });
        (all, failure)
    }

    /// The life of a worker. Its failure shuts the service down: closing the guard ends all waits.
    fn run_worker(&self) -> (Tally, Option<AnyError>) {
        let mut tally = Tally::default();
        let failure = self.work(&mut tally).err();
        if failure.is_some() {
            self.guard.close();
        }
        (tally, failure)
    }

    /// The agents' ledgers as they are now.
    pub(crate) fn ledgers(&self) -> impl Iterator<Item = Result<Ledger, FileError>> {
        self.agents.iter().map(|agent| agent.dir.read())
    }
}
