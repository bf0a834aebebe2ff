//! Stores that change only some of another store's steps.

/// Writes, inside an `impl LeaseStore`, the methods that only pass on to the store in a field.
///
/// ```text
/// impl LeaseStore for Counting {
///     forward_to!(store: acquire, renew, hand_over, holder, watch, capabilities);
///
///     fn release(&self, …) { … }
/// }
/// ```
#[macro_export]
macro_rules! forward_to {
    ($store:ident: $($method:ident),+) => { $($crate::forward_to!(@$method $store);)+ };
    (@acquire $store:ident) => {
        fn acquire(
            &self,
            slot: &$crate::guard_core::SlotName,
            token: &$crate::guard_core::LeaseToken,
            ttl: $crate::guard_core::LeaseTtl,
            budget: $crate::guard_core::Budget,
        ) -> Result<$crate::guard_core::Acquired, $crate::guard_core::StoreError> {
            self.$store.acquire(slot, token, ttl, budget)
        }
    };
    (@renew $store:ident) => {
        fn renew(
            &self,
            slot: &$crate::guard_core::SlotName,
            token: &$crate::guard_core::LeaseToken,
            ttl: $crate::guard_core::LeaseTtl,
            budget: $crate::guard_core::Budget,
        ) -> Result<$crate::guard_core::Renewed, $crate::guard_core::StoreError> {
            self.$store.renew(slot, token, ttl, budget)
        }
    };
    (@release $store:ident) => {
        fn release(
            &self,
            slot: &$crate::guard_core::SlotName,
            token: &$crate::guard_core::LeaseToken,
            budget: $crate::guard_core::Budget,
        ) -> Result<$crate::guard_core::Released, $crate::guard_core::StoreError> {
            self.$store.release(slot, token, budget)
        }
    };
    (@hand_over $store:ident) => {
        fn hand_over(
            &self,
            slot: &$crate::guard_core::SlotName,
            from: &$crate::guard_core::LeaseToken,
            to: &$crate::guard_core::LeaseToken,
            ttl: $crate::guard_core::LeaseTtl,
            budget: $crate::guard_core::Budget,
        ) -> Result<$crate::guard_core::HandedOver, $crate::guard_core::StoreError> {
            self.$store.hand_over(slot, from, to, ttl, budget)
        }
    };
    (@holder $store:ident) => {
        fn holder(
            &self,
            slot: &$crate::guard_core::SlotName,
            budget: $crate::guard_core::Budget,
        ) -> Result<Option<$crate::guard_core::Holder>, $crate::guard_core::StoreError> {
            self.$store.holder(slot, budget)
        }
    };
    (@watch $store:ident) => {
        fn watch(
            &self,
            slot: &$crate::guard_core::SlotName,
            subscriber: &$crate::guard_core::Subscriber,
        ) -> Option<$crate::guard_core::Watch> {
            self.$store.watch(slot, subscriber)
        }
    };
    (@node $store:ident) => {
        fn node(&self, slot: &$crate::guard_core::SlotName) -> $crate::guard_core::NodeId {
            self.$store.node(slot)
        }
    };
    (@in_doubt $store:ident) => {
        fn in_doubt(&self, token: &$crate::guard_core::LeaseToken) -> bool {
            self.$store.in_doubt(token)
        }
    };
    (@capabilities $store:ident) => {
        fn capabilities(&self) -> $crate::guard_core::Capabilities {
            self.$store.capabilities()
        }
    };
}
