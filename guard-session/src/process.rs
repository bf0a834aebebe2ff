//! The process that something belongs to.

use std::process;

/// The process that something was made in. A child of `fork` inherits the memory but not the threads, and shares the
/// sockets: what it finds there it must neither use nor end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        Self(process::id())
    }

    /// Whether it is this process.
    #[must_use]
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}
