//! State by slot, spread over several places.

use crate::slot::SlotName;

const SHARDS: usize = 32;

/// A number of `T`s, such as locked maps, of which each slot has one: so distinct slots seldom share a lock.
#[derive(Debug)]
pub struct Shards<T>([Apart<T>; SHARDS]);

/// On cache lines of its own, so that threads that use neighbours do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> Shards<T> {
    /// The one that `slot` has.
    #[must_use]
    #[inline]
    pub fn of(&self, slot: &SlotName) -> &T {
        &self.0[slot.shard(SHARDS)].0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Apart(shard)| shard)
    }
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Apart::default()))
    }
}
