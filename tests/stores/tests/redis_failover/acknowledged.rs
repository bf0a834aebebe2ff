//! Failovers that lose nothing, because every replica that could be promoted has acknowledged.

use std::time::{Duration, Instant};

use guard_store_tests::redis_topologies::{REPLICAS, Sentinels};

use crate::crowd::{Crowd, Summary};
use crate::{alone, builder, rounds};

/// A release is not waited for; one that is lost with its master frees its slot after this.
const TTL: Duration = Duration::from_secs(15);

#[test]
fn leases_that_all_replicas_have_never_overlap_and_their_numbers_grow() {
    let _alone = alone();
    let mut servers = Sentinels::start();
    let guards = [(); 2].map(|()| {
        let builder = builder(&servers.address()).lease_ttl(TTL).fencing(true);
        let builder = builder.min_replicas(REPLICAS).auto_renew(true);
        builder.build().unwrap()
    });
    let names = (0..5).map(|number| number.to_string()).collect();
    let crowd = Crowd::start(&guards, names, 20);
    let start = Instant::now();
    for round in 1..=rounds() {
        let old = servers.master();
        servers.server(old).kill();
        servers.wait_for_another_than(old);
        // Until it is back nobody enters: one replica is not enough.
        servers.rejoin(old);
        let resumed = crowd.wait_for_entries(Instant::now());
        println!(
            "round {round}, {:?}: {} entries, all slots entered {resumed:?} after the replica was back",
            start.elapsed(),
            crowd.entries()
        );
    }
    assert_eq!(crowd.finish(), Summary::GOOD);
}
