//! Gates without a store.

use super::*;
use crate::base::key::SandboxIsolationKey;
use crate::base::slot::KeyPrefix;
use crate::base::token::OwnerLabel;
use crate::engine::turns::Turn;

fn slot() -> SlotName {
    KeyPrefix::new("test")
        .unwrap()
        .slot(&SandboxIsolationKey::global())
}

fn waiter() -> Arc<Waiter> {
    Arc::new(Waiter::new(LeaseToken::generate(&OwnerLabel::default())))
}

fn in_front(waiter: &Waiter) -> bool {
    waiter.wait_for_front(Some(Instant::now()))
}

#[test]
fn the_front_passes_on_in_order_and_leavers_disturb_nobody() {
    let (gates, slot) = (Gates::default(), slot());
    let waiters = [(); 4].map(|()| waiter());
    let [a, b, c, d] = waiters.each_ref().map(|w| gates.join(&slot, NodeId(0), w));
    assert_eq!(
        waiters.each_ref().map(|w| in_front(w)),
        [true, false, false, false]
    );
    drop(b);
    assert!(!in_front(&waiters[2]));
    drop(a);
    assert!(in_front(&waiters[2]) && !in_front(&waiters[3]));
    assert!(!waiters[2].expects_hand_over());
    drop(d);
    drop(c);
    assert!(gates.len() == 0);
}

#[test]
fn who_follows_an_entry_that_entered_expects_to_be_handed_the_slot() {
    let (gates, slot) = (Gates::default(), slot());
    let [a, b] = [(); 2].map(|()| waiter());
    let first = gates.join(&slot, NodeId(0), &a);
    let second = gates.join(&slot, NodeId(0), &b);
    first.enter(a.token(), None, Instant::now());
    assert!(b.expects_hand_over() && gates.is_held(&slot));
    assert_eq!(
        gates.receiver(&slot).map(|(_, token)| token),
        Some(b.token())
    );
    drop(second);
    assert!(gates.receiver(&slot).is_none() && gates.len() > 0);
    gates.freed(&slot, &b.token(), Follow::AtOnce);
    assert!(gates.is_held(&slot), "somebody else's end changes nothing");
    gates.freed(&slot, &a.token(), Follow::AtOnce);
    assert!(gates.len() == 0);
}

#[test]
fn a_decided_entry_is_passed_over_and_refuses_a_grant() {
    let (gates, slot) = (Gates::default(), slot());
    let [a, b] = [(); 2].map(|()| waiter());
    let _first = gates.join(&slot, NodeId(0), &a);
    let _second = gates.join(&slot, NodeId(0), &b);
    a.decide(Verdict::Interrupted);
    let (receiver, token) = gates.receiver(&slot).unwrap();
    assert!(Arc::ptr_eq(&receiver, &b));
    let now = Instant::now();
    let grant = |token: &LeaseToken| Grant {
        token: token.clone(),
        fencing: None,
        sent: now,
        at: now,
        deadline: now,
        turn: Turn::default(),
    };
    assert_eq!(gates.hand(&slot, &a, grant(&a.token())), Received::Refused);
    assert_eq!(gates.hand(&slot, &b, grant(&token)), Received::Taken);
    assert_eq!(gates.hand(&slot, &b, grant(&token)), Received::Already);
    assert!(gates.is_held(&slot));
}

#[test]
fn a_closed_gate_decides_those_inside_and_those_who_come() {
    let (gates, slot) = (Gates::default(), slot());
    let [inside, late] = [(); 2].map(|()| waiter());
    let _inside = gates.join(&slot, NodeId(0), &inside);
    gates.close();
    let _late = gates.join(&slot, NodeId(0), &late);
    for waiter in [&inside, &late] {
        assert!(matches!(waiter.verdict(), Some(Verdict::Closed)));
    }
}
