//! A holder loses its lease without knowing, and storage refuses what it writes then.
//!
//! ```text
//! cargo run --example fenced_storage
//! ```
//!
//! Leases in memory are always numbered. With Redis, build the guard with `.fencing(true)`; the rest is the
//! same.

mod storage;

use std::error::Error;

use guard_memory::{
    IsolationScope, MemorySandboxExecutionGuard, SandboxExecutionGuard, SandboxIsolationKey,
};

use crate::storage::FencedStorage;

fn main() -> Result<(), Box<dyn Error>> {
    let guard = MemorySandboxExecutionGuard::builder().build()?;
    let storage = FencedStorage::default();
    let key = SandboxIsolationKey::new(IsolationScope::Agent, "code-agent")?;

    let first = guard.try_enter(&key)?;
    let first_token = first.fencing_token().ok_or("leases are not numbered")?;
    storage.write("workspace", first_token, "by the first holder")?;
    println!("the first holder writes with token {first_token}");

    // An operator deletes the slot, or the store forgets it: the first holder is paused and does not notice.
    guard.expire(&key);
    let second = guard.try_enter(&key)?;
    let second_token = second.fencing_token().ok_or("leases are not numbered")?;
    storage.write("workspace", second_token, "by the second holder")?;
    println!("the second holder writes with token {second_token}");

    // The first holder goes on where it was.
    match storage.write("workspace", first_token, "by the first holder again") {
        Err(stale) => println!("the first holder is refused: {stale}"),
        Ok(()) => return Err("a stale write was taken".into()),
    }
    println!(
        "the workspace was written {}",
        storage.read("workspace").unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stale_holder_is_refused() {
        super::main().unwrap();
    }
}
