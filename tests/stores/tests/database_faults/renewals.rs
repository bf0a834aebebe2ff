//! Many leases, renewed over a long way or beside sessions that stall.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, unique_prefix};
use guard_core::{
    Acquired, Budget, LeaseStore, LeaseToken, LeaseTtl, OwnerLabel, Renewed, SlotName, StoreError,
};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::Database;

use super::{SLACK, builder, key, slot};

const BUDGET: Duration = Duration::from_secs(2);

fn ttl() -> LeaseTtl {
    LeaseTtl::new(LeaseTtl::DEFAULT, Duration::MAX).unwrap()
}

/// So many leases, over a proxy.
fn leases<D: Database>(
    proxy: &Proxy,
    count: usize,
) -> (Arc<dyn LeaseStore>, Vec<(SlotName, LeaseToken)>) {
    let guard = builder::<D>(&D::url(proxy.port())).build().unwrap();
    let store = D::store(&guard);
    let prefix = unique_prefix();
    let leases: Vec<_> = (0..count)
        .map(|number| {
            let slot = slot(&key(&format!("{prefix}-{number}")));
            let token = LeaseToken::generate(&OwnerLabel::default());
            let budget = Budget::new(PATIENCE);
            let granted = store.acquire(&slot, &token, ttl(), budget).unwrap();
            assert!(matches!(granted, Acquired::Granted { .. }));
            (slot, token)
        })
        .collect();
    (store, leases)
}

fn renewed(answers: &[Result<Renewed, StoreError>]) -> usize {
    let good = |answer: &&Result<Renewed, StoreError>| matches!(answer, Ok(Renewed::Renewed));
    answers.iter().filter(good).count()
}

pub fn a_long_way_costs_no_lease<D: Database>() {
    const LEASES: usize = 150;
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let (store, leases) = leases::<D>(&proxy, LEASES);
    // There and back.
    proxy.delay(Duration::from_millis(75));
    for _ in 0..3 {
        let answers = store.renew_many(&leases, ttl(), Budget::new(BUDGET));
        assert_eq!(renewed(&answers), LEASES);
    }
}

pub fn a_session_that_stalls_costs_no_other_its_renewal<D: Database>() {
    const LEASES: usize = 40;
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let (store, leases) = leases::<D>(&proxy, LEASES);
    proxy.hold_next();
    let before = Instant::now();
    let answers = store.renew_many(&leases, ttl(), Budget::new(BUDGET));
    let took = before.elapsed();
    assert!(took < BUDGET + SLACK, "{took:?}");
    assert!(proxy.is_holding());
    assert_eq!(renewed(&answers), LEASES - 1);
    assert!(answers.iter().all(|answer| {
        answer
            .as_ref()
            .map_or_else(StoreError::is_transient, |renewed| {
                *renewed == Renewed::Renewed
            })
    }));
    // It has stalled only: its lease is good, and so is its session.
    proxy.deliver();
    let answers = store.renew_many(&leases, ttl(), Budget::new(BUDGET));
    assert_eq!(renewed(&answers), LEASES);
}
