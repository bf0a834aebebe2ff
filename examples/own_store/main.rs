//! A store of one's own, and the suite that every store passes.
//!
//! ```text
//! cargo run --example own_store              runs the suite on it, as `cargo test` does
//! cargo run --example own_store -- waiting   runs one topic
//! ```

mod map_store;

use std::process::ExitCode;
use std::sync::Arc;

use guard_conformance::Backend;
use guard_core::{ConfigError, GuardConfig, LeaseGuard, LeaseStore, SandboxExecutionGuard};

use map_store::MapStore;

/// What the suite has to know of the store. One that processes share has another process to bring along, one that
/// foreign programs can use such a program, and one with a server the way to it.
struct Map(MapStore);

impl Backend for Map {
    fn name(&self) -> &str {
        "map"
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.0.clone())
    }

    fn guard(&self, config: GuardConfig) -> Result<Arc<dyn SandboxExecutionGuard>, ConfigError> {
        Ok(Arc::new(LeaseGuard::new(self.0.clone(), &config)?))
    }
}

fn main() -> ExitCode {
    guard_conformance::run(Map(MapStore::default()))
}
