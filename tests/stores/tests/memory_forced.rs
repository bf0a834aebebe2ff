//! A lease that its own guard ends by force while others of that guard wait for its slot.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, mpsc};

use guard_conformance::{PATIENCE, Waiting, forward_to};
use guard_core::{
    Budget, CloseOutcome, GuardConfig, LeaseGuard, LeaseStore, LeaseToken, Released,
    SandboxExecutionGuard, SandboxIsolationKey, SlotName, StoreError,
};
use guard_memory::MemoryStore;
use parking_lot::Mutex;

/// The in-memory store, except that whoever frees a slot is told so late: when somebody else has entered.
struct Late {
    store: MemoryStore,
    entered: Mutex<mpsc::Receiver<()>>,
}

impl LeaseStore for Late {
    forward_to!(store: acquire, renew, hand_over, holder, watch, capabilities);

    fn release(
        &self,
        slot: &SlotName,
        token: &LeaseToken,
        budget: Budget,
    ) -> Result<Released, StoreError> {
        let released = self.store.release(slot, token, budget)?;
        if released == Released::Released {
            let _ = self.entered.lock().recv_timeout(PATIENCE);
        }
        Ok(released)
    }
}

#[test]
fn it_is_lost_also_if_the_next_one_enters_before_the_store_has_answered() {
    let (tell, entered) = mpsc::channel();
    let store = Late {
        store: MemoryStore::new(),
        entered: Mutex::new(entered),
    };
    let guard = Arc::new(LeaseGuard::new(store, &GuardConfig::default()).unwrap());
    let key = SandboxIsolationKey::global();
    let lease = guard.try_enter(&key).unwrap();
    let next = {
        let (guard, key, tell) = (Arc::clone(&guard), key.clone(), tell.clone());
        Waiting::start(move || {
            let next = guard.try_enter_for(&key, PATIENCE).unwrap();
            tell.send(()).unwrap();
            next
        })
    };
    assert!(guard.force_release(&key).unwrap().is_some());
    let next = next.result();
    assert!(next.is_held());
    assert!(!lease.is_held(), "the slot is another lease's");
    assert_eq!(lease.close(), CloseOutcome::AlreadyGone);
    tell.send(()).unwrap();
    assert_eq!(next.close(), CloseOutcome::Released);
}
