//! Random bits.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::process;
use std::thread;
use std::time::Instant;

use rand::rngs::{OsRng, StdRng};
use rand::{RngCore as _, SeedableRng as _, TryRngCore as _};

thread_local! {
    /// Needs no destructor, and so serves destructors of other thread-locals too.
    static GENERATOR: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// Bits from the operating system. A generator of our own would be copied with the process, by `fork` or from a
/// snapshot, and both copies would draw the same.
pub(crate) fn from_system() -> u128 {
    let mut bytes = [0; 16];
    if OsRng.try_fill_bytes(&mut bytes).is_ok() {
        return u128::from_ne_bytes(bytes);
    }
    // A system that gives none at the moment. The keys of a hasher are random as well, and unlike for each one.
    let here = (process::id(), thread::current().id(), Instant::now());
    let half = || u128::from(RandomState::new().hash_one(here));
    half() << 64 | half()
}

/// Bits for what never leaves the process, from a generator of the calling thread: much quicker.
pub(crate) fn within_process() -> u128 {
    let draw = |generator: &mut StdRng| {
        u128::from(generator.next_u64()) << 64 | u128::from(generator.next_u64())
    };
    GENERATOR.with(|generator| {
        let mut generator = generator.borrow_mut();
        draw(generator.get_or_insert_with(|| {
            let mut seed = [0; 32];
            seed[..16].copy_from_slice(&from_system().to_ne_bytes());
            seed[16..].copy_from_slice(&from_system().to_ne_bytes());
            StdRng::from_seed(seed)
        }))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_thread_draws_while_its_storage_is_destroyed() {
        struct Last(Cell<Option<std::sync::mpsc::Sender<[u128; 2]>>>);
        impl Drop for Last {
            fn drop(&mut self) {
                let sender = self.0.take().unwrap();
                sender.send([within_process(), from_system()]).unwrap();
            }
        }
        thread_local! {
            static LAST: Last = const { Last(Cell::new(None)) };
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            LAST.with(|last| last.0.set(Some(sender)));
            within_process()
        });
        let first = thread.join().unwrap();
        let last = receiver.recv().unwrap();
        assert!(last[0] != first && last[0] != last[1]);
    }
}
