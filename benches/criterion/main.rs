//! The criterion benches: `cargo bench -p guard-benches`, or one group: `cargo bench -p guard-benches -- handover`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contended;
mod handover;
mod many;
mod renewal;
mod uncontended;

use std::time::Duration;

use criterion::Criterion;
use guard_benches::other_process;
use guard_store_tests::redis_server::RedisServer;

fn main() {
    if other_process::was_the_holder() {
        return;
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let server = RedisServer::start();
    uncontended::uncontended(&mut criterion, &server);
    uncontended::fenced(&mut criterion, &server);
    uncontended::by_tls(&mut criterion);
    handover::handover(&mut criterion, &server);
    contended::contended(&mut criterion, &server);
    many::many(&mut criterion);
    renewal::renewal(&mut criterion, &server);
    criterion.final_summary();
}
