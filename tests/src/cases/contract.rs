//! What `LeaseStore` promises to the guard, asked of the bare store.

use std::sync::Arc;
use std::time::Duration;

use guard_core::{
    Acquired, FencingToken, HandedOver, LeaseStore, LeaseToken, Released, Renewed, SlotName,
};

use crate::backend::Backend;
use crate::fixture::{Fixture, budget, eventually, key, token, ttl};

const MINUTE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// A store, a slot of it, and the operations with the arguments that matter.
struct Bench<'a> {
    store: Arc<dyn LeaseStore>,
    slot: SlotName,
    fixture: Fixture<'a>,
}

impl<'a> Bench<'a> {
    fn new(backend: &'a dyn Backend) -> Self {
        let fixture = Fixture::new(backend);
        Self {
            store: backend.store(),
            slot: fixture.slot(&key("a")),
            fixture,
        }
    }

    fn acquire(&self, token: &LeaseToken, time: Duration) -> Acquired {
        self.store
            .acquire(&self.slot, token, ttl(time), budget())
            .unwrap()
    }

    #[track_caller]
    fn granted(&self, token: &LeaseToken, time: Duration) -> Option<FencingToken> {
        match self.acquire(token, time) {
            Acquired::Granted { fencing } => fencing,
            held @ Acquired::Held { .. } => panic!("{held:?}"),
        }
    }

    fn renew(&self, token: &LeaseToken, time: Duration) -> Renewed {
        self.store
            .renew(&self.slot, token, ttl(time), budget())
            .unwrap()
    }

    fn release(&self, token: &LeaseToken) -> Released {
        self.store.release(&self.slot, token, budget()).unwrap()
    }

    fn hand_over(&self, from: &LeaseToken, to: &LeaseToken, time: Duration) -> HandedOver {
        self.store
            .hand_over(&self.slot, from, to, ttl(time), budget())
            .unwrap()
    }

    #[track_caller]
    fn handed_over(
        &self,
        from: &LeaseToken,
        to: &LeaseToken,
        time: Duration,
    ) -> Option<FencingToken> {
        match self.hand_over(from, to, time) {
            HandedOver::Granted { fencing } => fencing,
            HandedOver::NotHeld => panic!("not held"),
        }
    }

    fn carries(&self, token: &LeaseToken) -> bool {
        self.fixture.carries(&self.slot, token.as_str())
    }

    fn is_free(&self) -> bool {
        self.store.holder(&self.slot, budget()).unwrap().is_none()
    }

    fn ttl(&self) -> Option<Duration> {
        self.fixture.ttl(&self.slot)
    }
}

/// A grant whose answer was lost is given again, with the same number.
pub(crate) fn acquire_repeated_for_a_token_grants_again(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let own = token();
    let first = bench.granted(&own, MINUTE);
    assert_eq!(first.is_some(), backend.capabilities().fencing);
    assert_eq!(bench.granted(&own, 3 * MINUTE), first);
    assert_eq!(bench.granted(&own, MINUTE), first);
    assert_eq!(bench.release(&own), Released::Released);
    assert!(bench.is_free());
}

/// Somebody else's token is `Held`, with the time that it has if the store knows, and is not touched.
pub(crate) fn acquire_answers_held_and_changes_nothing(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let own = token();
    bench.granted(&own, MINUTE);
    match bench.acquire(&token(), 3 * MINUTE) {
        Acquired::Held { remaining } if backend.capabilities().expires => {
            let remaining = remaining.unwrap();
            assert!(
                remaining <= MINUTE && remaining > MINUTE / 2,
                "{remaining:?}"
            );
        }
        Acquired::Held { remaining } => assert_eq!(remaining, None),
        granted @ Acquired::Granted { .. } => panic!("{granted:?}"),
    }
    assert!(bench.carries(&own));
    assert_eq!(bench.renew(&own, MINUTE), Renewed::Renewed);
    assert_eq!(bench.release(&own), Released::Released);
}

/// A foreign token may stay for ever.
pub(crate) fn a_token_without_a_ttl_is_held(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    bench.fixture.foreign().set(&bench.slot, "x", None);
    assert_eq!(
        bench.acquire(&token(), MINUTE),
        Acquired::Held { remaining: None }
    );
    bench.fixture.foreign().delete(&bench.slot);
}

/// A renewal is for the token in the slot; it revives nothing.
pub(crate) fn renew_is_for_its_own_token_only(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, other) = (token(), token());
    assert_eq!(bench.renew(&own, MINUTE), Renewed::NotHeld);
    bench.granted(&own, MINUTE);
    assert_eq!(bench.renew(&own, 3 * MINUTE), Renewed::Renewed);
    assert_eq!(bench.renew(&other, 9 * MINUTE), Renewed::NotHeld);
    assert!(bench.carries(&own));
    bench.release(&own);
    assert_eq!(bench.renew(&own, MINUTE), Renewed::NotHeld);
    assert!(bench.is_free());
}

/// Many renewals are answered one by one, in their order.
pub(crate) fn renew_many_answers_in_order(backend: &dyn Backend) {
    let fixture = Fixture::new(backend);
    let store = backend.store();
    let leases: Vec<_> = ["a", "b", "c", "d"]
        .map(|v| (fixture.slot(&key(v)), token()))
        .into();
    for (slot, token) in [&leases[0], &leases[2], &leases[3]] {
        store.acquire(slot, token, ttl(MINUTE), budget()).unwrap();
    }
    let mut asked = leases.clone();
    asked[3].1 = token();
    let answers = store.renew_many(&asked, ttl(3 * MINUTE), budget());
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        answers,
        [
            Renewed::Renewed,
            Renewed::NotHeld,
            Renewed::Renewed,
            Renewed::NotHeld
        ]
    );
    assert!(store.renew_many(&[], ttl(MINUTE), budget()).is_empty());
    for (slot, token) in &leases {
        store.release(slot, token, budget()).unwrap();
    }
}

/// A released token does not hold; a token that does not hold frees nothing.
pub(crate) fn release_is_for_the_own_token_only_and_final(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, other) = (token(), token());
    bench.granted(&own, MINUTE);
    assert_eq!(bench.release(&other), Released::NotHeld);
    assert!(bench.carries(&own));
    assert_eq!(bench.release(&own), Released::Released);
    assert_eq!(bench.release(&own), Released::NotHeld);
    assert!(bench.is_free());
    bench.granted(&other, MINUTE);
    assert_eq!(bench.release(&own), Released::NotHeld);
    assert!(bench.carries(&other));
    assert_eq!(bench.release(&other), Released::Released);
}

/// A hand-over whose answer was lost has happened: asked again it says the same.
pub(crate) fn hand_over_swaps_once_however_often_it_is_asked(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (from, to) = (token(), token());
    bench.granted(&from, MINUTE);
    let first = bench.handed_over(&from, &to, 3 * MINUTE);
    assert!(bench.carries(&to));
    assert_eq!(bench.handed_over(&from, &to, 9 * MINUTE), first);
    assert!(bench.carries(&to));
    // The receiver's own entry asks with the same token and gets the same lease.
    assert_eq!(bench.granted(&to, MINUTE), first);
    assert_eq!(bench.release(&from), Released::NotHeld);
    assert_eq!(bench.renew(&from, MINUTE), Renewed::NotHeld);
    assert_eq!(bench.release(&to), Released::Released);
}

/// Nothing can be handed over by a token that does not hold the slot.
pub(crate) fn hand_over_from_a_token_that_does_not_hold_changes_nothing(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (holder, from, to) = (token(), token(), token());
    assert_eq!(bench.hand_over(&from, &to, MINUTE), HandedOver::NotHeld);
    assert!(bench.is_free());
    bench.granted(&holder, MINUTE);
    assert_eq!(bench.hand_over(&from, &to, 3 * MINUTE), HandedOver::NotHeld);
    assert!(bench.carries(&holder));
    assert_eq!(bench.release(&holder), Released::Released);
}

/// Each step that grants or renews gives the slot its whole TTL, shorter or longer.
pub(crate) fn every_grant_has_a_fresh_ttl(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, to) = (token(), token());
    let three_minutes = |what: &str| {
        let ttl = bench.ttl().unwrap();
        assert!(ttl > 2 * MINUTE && ttl <= 3 * MINUTE, "{what}: {ttl:?}");
    };
    let one_minute = |what: &str| assert!(bench.ttl().unwrap() <= MINUTE, "{what}");
    bench.granted(&own, MINUTE);
    one_minute("granted");
    bench.granted(&own, 3 * MINUTE);
    three_minutes("granted again");
    bench.granted(&own, MINUTE);
    one_minute("granted again, for a shorter time");
    assert_eq!(bench.renew(&own, 3 * MINUTE), Renewed::Renewed);
    three_minutes("renewed");
    bench.handed_over(&own, &to, MINUTE);
    one_minute("handed over");
    bench.handed_over(&own, &to, 3 * MINUTE);
    three_minutes("handed over again");
    let many = [(bench.slot.clone(), to.clone())];
    let answers = bench.store.renew_many(&many, ttl(MINUTE), budget());
    assert!(matches!(answers[..], [Ok(Renewed::Renewed)]));
    one_minute("renewed with others");
    assert_eq!(bench.release(&to), Released::Released);
    assert_eq!(bench.ttl(), None);
}

/// What does not concern a lease leaves its TTL alone.
pub(crate) fn a_lease_keeps_its_ttl_when_others_ask(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, other) = (token(), token());
    bench.granted(&own, MINUTE);
    bench.acquire(&other, 3 * MINUTE);
    bench.renew(&other, 3 * MINUTE);
    bench.hand_over(&other, &token(), 3 * MINUTE);
    let many = [(bench.slot.clone(), other)];
    bench.store.renew_many(&many, ttl(3 * MINUTE), budget());
    assert!(bench.ttl().unwrap() <= MINUTE);
    assert_eq!(bench.release(&own), Released::Released);
}

/// A slot whose lease nobody renews comes free by itself.
pub(crate) fn the_store_enforces_the_ttl(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, other) = (token(), token());
    bench.granted(&own, SHORT);
    eventually("the slot comes free", || {
        matches!(bench.acquire(&other, MINUTE), Acquired::Granted { .. })
    });
    assert_eq!(bench.renew(&own, MINUTE), Renewed::NotHeld);
    assert_eq!(bench.release(&own), Released::NotHeld);
    assert_eq!(bench.release(&other), Released::Released);
}

/// Every new lease has a larger number than the one before, however that one ended.
pub(crate) fn fencing_tokens_grow_over_release_and_hand_over(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let mut last = None;
    for _ in 0..50 {
        let (first, second) = (token(), token());
        let granted = bench.granted(&first, MINUTE);
        assert!(granted > last, "{granted:?} after {last:?}");
        let handed_over = bench.handed_over(&first, &second, MINUTE);
        assert!(handed_over > granted, "{handed_over:?} after {granted:?}");
        bench.release(&second);
        last = handed_over;
    }
}

/// An expiry and a deletion by somebody else do not set the numbers back.
pub(crate) fn fencing_tokens_grow_over_expiry(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let first = bench.granted(&token(), SHORT);
    eventually("the slot comes free", || bench.ttl().is_none());
    let second = bench.granted(&token(), MINUTE);
    bench.fixture.foreign().delete(&bench.slot);
    let own = token();
    let third = bench.granted(&own, MINUTE);
    assert!(
        first < second && second < third,
        "{first:?} {second:?} {third:?}"
    );
    bench.release(&own);
}

/// What is no token is neither granted nor swapped nor freed.
pub(crate) fn operations_on_foreign_data_change_nothing(backend: &dyn Backend) {
    let bench = Bench::new(backend);
    let (own, to) = (token(), token());
    let (store, slot) = (&bench.store, &bench.slot);
    bench.fixture.foreign().plant_data(slot);
    let acquired = store.acquire(slot, &own, ttl(MINUTE), budget()).map(drop);
    let holder = store.holder(slot, budget()).map(drop);
    for error in [acquired, holder].map(|outcome| outcome.expect_err("an error")) {
        assert!(!error.is_transient() && !error.is_unknown(), "{error:?}");
    }
    // It certainly is not this token: `NotHeld` is as true as an error is.
    let renewed = store.renew(slot, &own, ttl(MINUTE), budget());
    assert!(!matches!(renewed, Ok(Renewed::Renewed)), "{renewed:?}");
    let released = store.release(slot, &own, budget());
    assert!(!matches!(released, Ok(Released::Released)), "{released:?}");
    let handed_over = store.hand_over(slot, &own, &to, ttl(MINUTE), budget());
    assert!(
        !matches!(handed_over, Ok(HandedOver::Granted { .. })),
        "{handed_over:?}"
    );
    assert!(bench.fixture.foreign().carries_data(slot));
    bench.fixture.foreign().delete(slot);
}
