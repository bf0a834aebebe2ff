//! A way to the server that fails: what was sent is held back, cut off, or never answered.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_core::{Budget, LeaseStore, LeaseToken, SlotName};

use crate::backend::{Backend, Network};
use crate::fixture::{Fixture, PATIENCE, budget, eventually, key, token, ttl};
use crate::proxy::{Direction, Proxy};
use crate::waiting::A_WHILE;

/// How long calls may take whose answers are missing.
const SHORT: Duration = Duration::from_millis(400);
const TTL: Duration = Duration::from_secs(120);

/// A store whose way to the server can be disturbed, and one beside it.
struct Scene {
    proxy: Proxy,
    far: Arc<dyn LeaseStore>,
    near: Arc<dyn LeaseStore>,
    slot: SlotName,
}

impl Scene {
    fn new(backend: &dyn Backend) -> Self {
        let fixture = Fixture::new(backend);
        let network: &dyn Network = backend.network().expect("the suite has asked");
        let proxy = Proxy::to(network.port());
        let scene = Self {
            far: network.store_at(proxy.port()),
            near: backend.store(),
            slot: fixture.slot(&key("a")),
            proxy,
        };
        // Connections and scripts are there.
        let (warm, token) = (fixture.slot(&key("warm")), token());
        scene
            .far
            .acquire(&warm, &token, ttl(TTL), budget())
            .unwrap();
        scene.far.release(&warm, &token, budget()).unwrap();
        scene
    }

    /// Enters, perhaps; answers whether that is known to have failed or worked.
    fn enter(&self, token: &LeaseToken) -> bool {
        let acquired = self
            .far
            .acquire(&self.slot, token, ttl(TTL), Budget::new(SHORT));
        acquired.is_ok()
    }

    /// Repeats the release until it is final, as the engine does.
    fn release(&self, token: &LeaseToken) {
        eventually("the release is final", || {
            let released = self.far.release(&self.slot, token, Budget::new(SHORT));
            released.is_ok()
        });
    }

    #[track_caller]
    fn assert_free(&self, when: &str) {
        let holder = self.near.holder(&self.slot, budget()).unwrap();
        assert!(holder.is_none(), "{when}: {holder:?}");
    }
}

/// A release is final: what its token asked for before, and the network kept, takes nothing any more.
pub(crate) fn an_entry_that_is_executed_late_takes_nothing_after_its_release(
    backend: &dyn Backend,
) {
    let scene = Scene::new(backend);
    for round in 0..3 {
        let token = token();
        scene.proxy.hold_next();
        scene.enter(&token);
        assert!(scene.proxy.is_holding());
        scene.release(&token);
        scene.proxy.deliver();
        let end = Instant::now() + A_WHILE;
        while Instant::now() < end {
            scene.assert_free(&format!("round {round}"));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whatever was lost on the way, of what was asked or of what was answered.
pub(crate) fn a_release_whose_connection_is_cut_anywhere_is_final(backend: &dyn Backend) {
    let scene = Scene::new(backend);
    for direction in [Direction::Request, Direction::Reply] {
        // Until an entry and its release go through without the cut.
        for bytes in (0..).step_by(7) {
            let token = token();
            scene.proxy.cut_after(direction, bytes);
            scene.enter(&token);
            scene.release(&token);
            scene.assert_free(&format!("cut after {bytes} bytes"));
            let done = !scene.proxy.has_cut();
            scene.proxy.heal();
            if done {
                break;
            }
        }
    }
}

/// Every wait has a bound that the user chose.
pub(crate) fn a_call_that_is_never_answered_ends_with_its_budget(backend: &dyn Backend) {
    // Room for a noisy machine.
    const BOUND: Duration = Duration::from_secs(3);
    let scene = Scene::new(backend);
    let (ours, next) = (token(), token());
    let (far, slot) = (&scene.far, &scene.slot);
    far.acquire(slot, &ours, ttl(TTL), budget()).unwrap();
    scene.proxy.black_hole(true);
    let in_time = |what: &str, call: &dyn Fn(Budget) -> bool| {
        let started = Instant::now();
        assert!(call(Budget::new(SHORT)), "{what} is not answered");
        assert!(started.elapsed() < BOUND, "{what}: {:?}", started.elapsed());
    };
    in_time("renew", &|budget| {
        far.renew(slot, &ours, ttl(TTL), budget).is_err()
    });
    in_time("acquire", &|budget| {
        far.acquire(slot, &next, ttl(TTL), budget).is_err()
    });
    in_time("holder", &|budget| far.holder(slot, budget).is_err());
    in_time("hand_over", &|budget| {
        far.hand_over(slot, &ours, &next, ttl(TTL), budget).is_err()
    });
    in_time("release", &|budget| {
        far.release(slot, &ours, budget).is_err()
    });
    scene.proxy.heal();
    let deadline = Instant::now() + PATIENCE;
    scene.release(&next);
    scene.release(&ours);
    assert!(Instant::now() < deadline);
    scene.assert_free("after the black hole");
}
