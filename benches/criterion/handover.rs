//! From one holder's close to the next holder's entry. The pauses in which all come to rest are not counted.

use std::time::Duration;

use criterion::{Criterion, SamplingMode};
use guard_benches::handover::{Handover, idle_ping};
use guard_benches::samples::Turn;
use guard_store_tests::redis_server::RedisServer;

pub(crate) fn handover(criterion: &mut Criterion, server: &RedisServer) {
    let mut group = criterion.benchmark_group("handover");
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    let mut bench = |name: &str, make: fn(&RedisServer) -> Turn<'static>| {
        // Made only if the name is asked for.
        group.bench_function(name, |b| {
            let mut turn = make(server);
            b.iter_custom(|times| {
                (0..times)
                    .map(|_| Duration::from_nanos(turn() as u64))
                    .sum()
            });
        });
    };
    bench("processes", |server| {
        Handover::between_processes(server).turn()
    });
    bench("threads", |server| Handover::between_threads(server).turn());
    bench("published", |server| Handover::by_publishing(server).turn());
    bench("ping", idle_ping);
    // Half a second at most for each, so fewer of them.
    group.sample_size(10);
    group.bench_function("polling", |b| {
        let mut polling = Handover::by_polling(server);
        b.iter_custom(|times| (0..times).map(|_| polling.round()).sum());
    });
    group.finish();
}
