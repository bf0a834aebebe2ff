//! Masters that die where all speak TLS.

use std::sync::Arc;

use guard_conformance::{PATIENCE, Waiting};
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::certificates::Certificates;
use guard_store_tests::redis_topologies::{Cluster, Sentinels};

use crate::{alone, builder, key};

fn certificates() -> Arc<Certificates> {
    Arc::new(Certificates::new(&["127.0.0.1"]))
}

fn guards(address: &str, certificates: &Certificates) -> [RedisSandboxExecutionGuard; 2] {
    [(); 2].map(|()| certificates.introduce(builder(address)).build().unwrap())
}

/// A lease of one guard outlives its master, and another guard waits for it until it is closed.
fn fail_over_while_one_waits(guards: &[RedisSandboxExecutionGuard; 2], kill: impl FnOnce()) {
    let [ours, theirs] = guards;
    let lease = ours.try_enter(&key("a")).unwrap();
    let waiting = {
        let theirs = theirs.clone();
        Waiting::start(move || theirs.try_enter_for(&key("a"), PATIENCE))
    };
    kill();
    // Not only the first server is reached by TLS.
    drop(ours.try_enter_for(&key("b"), PATIENCE).unwrap());
    lease.renew().unwrap();
    assert_eq!(lease.close(), CloseOutcome::Released);
    let next = waiting.result().unwrap();
    // One of its looks may have gone unanswered at the old master, which cannot be asked any more: then the
    // release is not final yet, but the slot is free.
    assert!(matches!(
        next.close(),
        CloseOutcome::Released | CloseOutcome::Deferred
    ));
    drop(ours.try_enter_for(&key("a"), PATIENCE).unwrap());
}

#[test]
fn a_master_of_sentinels_is_followed_by_tls() {
    let _alone = alone();
    let certificates = certificates();
    let mut servers = Sentinels::start_with(Some(&certificates));
    let guards = guards(&servers.address(), &certificates);
    fail_over_while_one_waits(&guards, || {
        // The replicas have the lease.
        servers.settle();
        let old = servers.master();
        servers.server(old).kill();
        servers.wait_for_another_than(old);
    });
}

#[test]
fn a_master_of_a_cluster_is_followed_by_tls() {
    let _alone = alone();
    let certificates = certificates();
    let mut cluster = Cluster::start_with(Some(&certificates));
    let guards = guards(&cluster.address(), &certificates);
    let slot = guards[0].slot(&key("a"));
    fail_over_while_one_waits(&guards, || {
        // The replicas have the lease.
        cluster.settle();
        let old = cluster.master_of(slot.as_str(), 5);
        let witness = (old + 1) % 6;
        cluster.node(old).kill();
        cluster.wait_for_another_than(old, slot.as_str(), witness);
    });
}
