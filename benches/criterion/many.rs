//! A hundred thousand slots held at once in memory: time and bytes for each.

use std::fs;

use criterion::{Criterion, SamplingMode, Throughput};
use guard_benches::guards::{self, key};
use guard_core::{SandboxExecutionGuard, SandboxIsolationKey, SandboxLease};

const SLOTS: usize = 100_000;

pub(crate) fn many(criterion: &mut Criterion) {
    let guard = guards::memory();
    let keys: Vec<_> = (0..SLOTS)
        .map(|number| key(&format!("many-{number}")))
        .collect();
    let mut told = false;
    let mut group = criterion.benchmark_group("many");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.throughput(Throughput::Elements(SLOTS as u64));
    group.bench_function("memory/100000", |b| {
        // Once, and before others have left memory behind that would be used again.
        if !told {
            told = true;
            println!(
                "many/memory/100000: {} bytes a slot",
                bytes_a_slot(&guard, &keys)
            );
        }
        b.iter(|| hold_all(&guard, &keys));
    });
    group.finish();
}

fn hold_all(guard: &impl SandboxExecutionGuard, keys: &[SandboxIsolationKey]) -> Vec<SandboxLease> {
    keys.iter()
        .map(|key| guard.try_enter(key).unwrap())
        .collect()
}

/// What the process grows by for each slot that is held, the caller's handle of the lease included.
fn bytes_a_slot(guard: &impl SandboxExecutionGuard, keys: &[SandboxIsolationKey]) -> u64 {
    let before = resident();
    let leases = hold_all(guard, keys);
    let grown = resident().saturating_sub(before);
    drop(leases);
    grown / keys.len() as u64
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line
        .and_then(|line| line.split_whitespace().next())
        .unwrap();
    1024 * kibibytes.parse::<u64>().unwrap()
}
