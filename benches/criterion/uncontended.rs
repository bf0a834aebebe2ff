//! One thread, one slot: a section, and its two halves, beside the floor and the peers.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use guard_benches::guards::{self, key, section};
use guard_benches::{floor, peers};
use guard_core::SandboxExecutionGuard;
use guard_store_tests::certificates::Certificates;
use guard_store_tests::redis_server::{RedisServer, Setup};

pub(crate) fn uncontended(criterion: &mut Criterion, server: &RedisServer) {
    let redis = guards::redis(server).build().unwrap();
    let memory = guards::memory();
    let mut group = criterion.benchmark_group("uncontended");
    group.bench_function("redis", |b| b.iter(section(&redis, "a")));
    group.bench_function("redis/enter", |b| b.iter_custom(enters(&redis)));
    group.bench_function("redis/close", |b| b.iter_custom(closes(&redis)));
    group.bench_function("redis/floor", |b| b.iter(floor::redis(server)));
    group.bench_function("redis/rslock", |b| b.iter(peers::rslock(server)));
    group.bench_function("redis/redlock", |b| b.iter(peers::redlock(server)));
    group.bench_function("redis/redsync", |b| b.iter(peers::redsync(server)));
    group.bench_function("memory", |b| b.iter(section(&memory, "a")));
    group.bench_function("memory/enter", |b| b.iter_custom(enters(&memory)));
    group.bench_function("memory/close", |b| b.iter_custom(closes(&memory)));
    group.bench_function("memory/floor", |b| b.iter(floor::memory("a")));
    group.finish();
}

/// In memory every lease has a fencing token.
pub(crate) fn fenced(criterion: &mut Criterion, server: &RedisServer) {
    let fenced = guards::redis(server).fencing(true).key_prefix("fenced");
    let fenced = fenced.build().unwrap();
    let mut group = criterion.benchmark_group("fenced");
    group.bench_function("redis", |b| b.iter(section(&fenced, "a")));
    group.bench_function("redis/enter", |b| b.iter_custom(enters(&fenced)));
    group.bench_function("redis/close", |b| b.iter_custom(closes(&fenced)));
    group.bench_function("redis/floor", |b| b.iter(floor::redis(server)));
    group.finish();
}

/// With certificates on both sides. The floor is a bare connection by TLS.
pub(crate) fn by_tls(criterion: &mut Criterion) {
    let server = RedisServer::start_with(Setup {
        tls: Some(Arc::new(Certificates::new(&["127.0.0.1"]))),
        ..Setup::default()
    });
    let redis = guards::redis(&server).build().unwrap();
    let mut group = criterion.benchmark_group("tls");
    group.bench_function("redis", |b| b.iter(section(&redis, "a")));
    group.bench_function("redis/enter", |b| b.iter_custom(enters(&redis)));
    group.bench_function("redis/close", |b| b.iter_custom(closes(&redis)));
    group.bench_function("redis/floor", |b| b.iter(floor::redis(&server)));
    group.finish();
}

/// The time of so many entries, without the closes.
fn enters<G: SandboxExecutionGuard>(guard: &G) -> impl FnMut(u64) -> Duration {
    let key = key("a");
    move |times| {
        let entry = |_| {
            let before = Instant::now();
            let lease = guard.try_enter(&key).unwrap();
            let time = before.elapsed();
            lease.close();
            time
        };
        (0..times).map(entry).sum()
    }
}

/// The time of so many closes, without the entries.
fn closes<G: SandboxExecutionGuard>(guard: &G) -> impl FnMut(u64) -> Duration {
    let key = key("a");
    move |times| {
        let closing = |_| {
            let lease = guard.try_enter(&key).unwrap();
            let before = Instant::now();
            black_box(lease.close());
            before.elapsed()
        };
        (0..times).map(closing).sum()
    }
}
