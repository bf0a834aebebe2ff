//! Programs that use the same locks share the slots.

use std::thread;
use std::time::Duration;

use guard_conformance::proxy::Proxy;
use guard_conformance::{Waiting, advisory_rows, eventually};
use guard_core::{CloseOutcome, SandboxExecutionGuard, SandboxIsolationKey, SlotName};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Client, Database};

use super::{blocked, builder, enter, guard, key, slot};

/// A slot with the prefix that other programs use.
fn shared() -> (SandboxIsolationKey, SlotName) {
    let key = key("code-agent");
    let slot = slot(&key);
    assert_eq!(slot, advisory_rows()[0].slot);
    (key, slot)
}

pub fn a_lock_of_another_client_keeps_us_out_until_it_is_freed<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let (key, slot) = shared();
    let mut client = Client::start(&server);
    assert!(client.lock(&slot));
    assert!(guard.try_enter_now(&key).unwrap().is_none());
    let holder = guard.holder(&key).unwrap().unwrap();
    assert_eq!(holder.owner(), Some(D::CLIENT));
    let description = holder.description().unwrap();
    let begin = D::description(client.id());
    assert!(description.starts_with(&begin), "{description}");

    let waiting = Waiting::start(move || guard.try_enter(&key));
    assert!(client.unlock(&slot));
    assert!(waiting.result().unwrap().is_held());
}

pub fn our_lease_keeps_another_client_out_until_it_is_closed<D: Database>() {
    let server = Daemon::<D>::start();
    let guard = guard(&server);
    let (key, slot) = shared();
    let lease = enter(&guard, &key);
    let mut client = Client::start(&server);
    assert!(!client.lock(&slot));
    client.send(&D::lock(&slot));
    eventually("the client waits", || server.sessions("waits") == 1);
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert_eq!(client.answer(), "1");
    assert!(guard.try_enter_now(&key).unwrap().is_none());
    assert_eq!(blocked(&server), 0);
}

/// Whenever it frees the slot: before the holder is asked for, before its end is asked for, or after.
pub fn a_session_that_frees_its_slot_while_it_is_forced_off_keeps_its_next_lease<D: Database>() {
    const DELAY: Duration = Duration::from_millis(60);
    let server = Daemon::<D>::start();
    let proxy = Proxy::to(server.port());
    let far = builder::<D>(&D::url(proxy.port())).operation_timeout(Duration::from_secs(20));
    let far = far.build().unwrap();
    let (mut kept, mut ended) = (0, 0);
    for round in 0..24 {
        let mut other = Client::start(&server);
        assert!(other.lock(&slot(&key("a"))));
        proxy.delay(DELAY);
        let forcing = {
            let far = far.clone();
            thread::spawn(move || far.force_release(&key("a")))
        };
        thread::sleep(DELAY * round / 2);
        other.send(&D::unlock(&slot(&key("a"))));
        if other.answer() == "1" {
            assert!(other.lock(&slot(&key("b"))));
            forcing.join().unwrap().unwrap();
            assert!(other.unlock(&slot(&key("b"))), "round {round}");
            kept += 1;
        } else {
            assert!(forcing.join().unwrap().unwrap().is_some());
            ended += 1;
        }
        proxy.heal();
    }
    assert!(kept > 0 && ended > 0, "{kept} kept, {ended} ended");
}
