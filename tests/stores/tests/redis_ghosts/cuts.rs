//! Every byte at which the exchange of an entry, a renewal or a close can break off.

use std::fmt;

use guard_conformance::PATIENCE;
use guard_conformance::proxy::{Direction, Proxy};
use guard_core::SlotName;
use guard_redis::{
    CloseOutcome, GuardError, RedisSandboxExecutionGuard, SandboxExecutionGuard, SandboxLease,
};

use crate::{Eye, Scene, assert_passing_failure, key};

/// Where each round waits, parts of them run beside each other: so many.
pub(crate) const PARTS: usize = 8;

/// What a cut leaves of the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The next connection is good.
    Once,
    /// The next connection is cut at the same place.
    Twice,
    /// Nothing gets through any more until it is healed.
    ForGood,
}

#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) direction: Direction,
    pub(crate) after: usize,
    pub(crate) mode: Mode,
}

impl Cut {
    /// Cuts what `exchange` sends or is sent, and heals the way afterwards.
    pub(crate) fn during<T>(self, proxy: &Proxy, exchange: impl FnOnce() -> T) -> T {
        match self.mode {
            Mode::Once => proxy.cut_after(self.direction, self.after),
            Mode::Twice => {
                proxy.cut_after(self.direction, self.after);
                proxy.cut_after(self.direction, self.after);
            }
            Mode::ForGood => proxy.cut_for_good_after(self.direction, self.after),
        }
        let outcome = exchange();
        proxy.heal();
        outcome
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            after,
            mode,
        } = self;
        write!(f, "{direction:?} cut after {after} bytes, {mode:?}")
    }
}

/// Every cut of an exchange with so many bytes each way.
pub(crate) fn every_cut([request, reply]: [usize; 2]) -> impl Iterator<Item = Cut> {
    let ways = [(Direction::Request, request), (Direction::Reply, reply)];
    let modes = [Mode::Once, Mode::Twice, Mode::ForGood];
    ways.into_iter().flat_map(move |(direction, bytes)| {
        (0..=bytes).flat_map(move |after| {
            modes.into_iter().map(move |mode| Cut {
                direction,
                after,
                mode,
            })
        })
    })
}

/// How many bytes went each way during `exchange`.
pub(crate) fn bytes(proxy: &Proxy, exchange: impl FnOnce()) -> [usize; 2] {
    let count = || [Direction::Request, Direction::Reply].map(|way| proxy.forwarded(way));
    let before = count();
    exchange();
    let after = count();
    [after[0] - before[0], after[1] - before[1]]
}

impl Eye {
    /// Asserts that an entry that was cut has its lease, or has failed where nothing gets through; and that the
    /// slot comes free.
    #[track_caller]
    pub(crate) fn entry_is_settled(
        &mut self,
        outcome: Result<SandboxLease, GuardError>,
        slot: &SlotName,
        cut: Cut,
    ) {
        match outcome {
            Ok(lease) => {
                assert!(lease.is_held(), "{cut}");
                let holder = self.holder(slot.as_str());
                assert_eq!(holder.as_deref(), Some(lease.token().as_str()), "{cut}");
                lease.close();
                // Nothing of it is under way any more, whatever became of it.
                assert_eq!(self.holder(slot.as_str()), None, "{cut}");
            }
            Err(error) => {
                assert_eq!(cut.mode, Mode::ForGood, "{cut}: {error:?}");
                assert_passing_failure(Err::<(), _>(error), &cut.to_string());
                self.freed(slot.as_str(), &cut.to_string());
            }
        }
    }
}

/// Cuts `exchange` of a lease everywhere. It tells what became of it; whatever that is, the slot comes free.
fn cut_everywhere(
    fencing: bool,
    exchange: impl Fn(&RedisSandboxExecutionGuard, SandboxLease, Mode) -> Option<SandboxLease>,
) {
    let scene = Scene::new(fencing);
    let (guard, mut eye) = (scene.guard(), scene.eye());
    let enter = |number: usize| {
        let key = key(&format!("{number:05}"));
        let lease = guard.try_enter_for(&key, PATIENCE).unwrap();
        (lease, guard.slot(&key))
    };
    // The second time the scripts are loaded.
    drop(exchange(&guard, enter(99_998).0, Mode::Once));
    let (lease, _) = enter(99_999);
    let mut kept = None;
    let bytes = bytes(&scene.proxy, || kept = exchange(&guard, lease, Mode::Once));
    drop(kept);
    for (number, cut) in every_cut(bytes).enumerate() {
        let (lease, slot) = enter(number);
        let token = lease.token().as_str().to_owned();
        let kept = cut.during(&scene.proxy, || exchange(&guard, lease, cut.mode));
        if let Some(lease) = kept {
            assert!(lease.is_held(), "{cut}");
            assert_eq!(eye.holder(slot.as_str()), Some(token), "{cut}");
            lease.renew().unwrap();
            assert_eq!(lease.close(), CloseOutcome::Released, "{cut}");
        }
        eye.freed(slot.as_str(), &cut.to_string());
    }
    eye.no_ghosts();
}

fn cut_entries(fencing: bool) {
    let scene = Scene::new(fencing);
    let (guard, mut eye) = (scene.guard(), scene.eye());
    // The second time the scripts are loaded.
    drop(guard.try_enter(&key("99998")).unwrap());
    let mut lease = None;
    let bytes = bytes(&scene.proxy, || {
        lease = Some(guard.try_enter(&key("99999")).unwrap());
    });
    drop(lease);
    for (number, cut) in every_cut(bytes).enumerate() {
        let key = key(&format!("{number:05}"));
        let slot = guard.slot(&key);
        let outcome = cut.during(&scene.proxy, || match cut.mode {
            Mode::ForGood => guard.try_enter_now(&key).map(Option::unwrap),
            Mode::Once | Mode::Twice => guard.try_enter_for(&key, PATIENCE),
        });
        eye.entry_is_settled(outcome, &slot, cut);
    }
    eye.no_ghosts();
}

#[test]
fn an_entry_that_is_cut_anywhere_leaves_no_ghost() {
    cut_entries(false);
}

#[test]
fn a_fenced_entry_that_is_cut_anywhere_leaves_no_ghost() {
    cut_entries(true);
}

fn close(_: &RedisSandboxExecutionGuard, lease: SandboxLease, mode: Mode) -> Option<SandboxLease> {
    let outcome = lease.close();
    let expected = match mode {
        Mode::Once => outcome == CloseOutcome::Released,
        Mode::Twice | Mode::ForGood => {
            matches!(outcome, CloseOutcome::Released | CloseOutcome::Deferred)
        }
    };
    assert!(expected, "{outcome:?}, {mode:?}");
    None
}

fn renew(_: &RedisSandboxExecutionGuard, lease: SandboxLease, mode: Mode) -> Option<SandboxLease> {
    match lease.renew() {
        Ok(()) => {}
        outcome if mode != Mode::Once => assert_passing_failure(outcome, "a renewal"),
        outcome => panic!("{outcome:?}"),
    }
    Some(lease)
}

#[test]
fn a_close_that_is_cut_anywhere_frees_the_slot() {
    cut_everywhere(false, close);
}

#[test]
fn a_renewal_that_is_cut_anywhere_loses_nothing() {
    cut_everywhere(false, renew);
}

#[test]
fn fenced_closes_and_renewals_that_are_cut_anywhere_are_as_good() {
    cut_everywhere(true, close);
    cut_everywhere(true, renew);
}
