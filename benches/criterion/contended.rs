//! Many threads: a section on one slot, which is handed over, and sections on a slot each.

use criterion::{Criterion, SamplingMode, Throughput};
use guard_benches::crowd::{contended as sections_of, together};
use guard_benches::floor;
use guard_benches::guards::{self, section};
use guard_store_tests::redis_server::RedisServer;

/// Sections of all threads together in one iteration.
const SECTIONS: usize = 512;
/// Sections of each of eight threads on a slot of its own in one iteration.
const SECTIONS_EACH: usize = 512;
const THREADS: usize = 8;

pub(crate) fn contended(criterion: &mut Criterion, server: &RedisServer) {
    let redis = guards::redis(server).build().unwrap();
    let unbounded = guards::redis_unbounded(server).build().unwrap();
    let memory = guards::memory();
    let mut group = criterion.benchmark_group("contended");
    group.sampling_mode(SamplingMode::Flat).sample_size(20);

    group.throughput(Throughput::Elements(SECTIONS as u64));
    for threads in [1, 2, 8, 64] {
        group.bench_function(format!("redis/{threads}"), |b| {
            b.iter_custom(|times| {
                (0..times)
                    .map(|_| sections_of(&redis, threads, SECTIONS))
                    .sum()
            });
        });
        group.bench_function(format!("redis-unbounded/{threads}"), |b| {
            b.iter_custom(|times| {
                (0..times)
                    .map(|_| sections_of(&unbounded, threads, SECTIONS))
                    .sum()
            });
        });
        group.bench_function(format!("memory/{threads}"), |b| {
            b.iter_custom(|times| {
                (0..times)
                    .map(|_| sections_of(&memory, threads, SECTIONS))
                    .sum()
            });
        });
    }

    group.throughput(Throughput::Elements((THREADS * SECTIONS_EACH) as u64));
    let slot = |number: usize| number.to_string();
    group.bench_function("redis/8-slots", |b| {
        let round = |_| {
            together(THREADS, SECTIONS_EACH, |number| {
                section(&redis, &slot(number))
            })
        };
        b.iter_custom(|times| (0..times).map(round).sum());
    });
    group.bench_function("memory/8-slots", |b| {
        let round = |_| {
            together(THREADS, SECTIONS_EACH, |number| {
                section(&memory, &slot(number))
            })
        };
        b.iter_custom(|times| (0..times).map(round).sum());
    });
    group.bench_function("memory/8-slots/floor", |b| {
        let round = |_| {
            together(THREADS, SECTIONS_EACH, |number| {
                floor::memory(&slot(number))
            })
        };
        b.iter_custom(|times| (0..times).map(round).sum());
    });
    group.finish();
}
