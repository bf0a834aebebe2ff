//! What it costs a section that its guard renews, and a renewal that is asked for.

use criterion::Criterion;
use guard_benches::guards::{self, key, section};
use guard_core::SandboxExecutionGuard;
use guard_store_tests::redis_server::RedisServer;

pub(crate) fn renewal(criterion: &mut Criterion, server: &RedisServer) {
    let renewed = guards::redis(server).auto_renew(true).build().unwrap();
    let memory = guards::memory();
    let mut group = criterion.benchmark_group("renewal");
    group.bench_function("redis/section", |b| b.iter(section(&renewed, "a")));
    group.bench_function("redis/renew", |b| {
        let lease = renewed.try_enter(&key("b")).unwrap();
        b.iter(|| lease.renew().unwrap());
    });
    group.bench_function("memory/renew", |b| {
        let lease = memory.try_enter(&key("b")).unwrap();
        b.iter(|| lease.renew().unwrap());
    });
    group.finish();
}
