//! How far the measuring is, on standard error.

use std::io::{IsTerminal, stderr};

/// One stage of the measuring. A terminal sees it advance; a file gets one line a stage.
pub(crate) struct Stage {
    name: &'static str,
    shown: Option<usize>,
    terminal: bool,
}

impl Stage {
    pub(crate) fn begin(name: &'static str) -> Self {
        let this = Self {
            name,
            shown: None,
            terminal: stderr().is_terminal(),
        };
        if !this.terminal {
            eprintln!("{name} …");
        }
        this
    }

    /// Says that so many of all steps are done.
    pub(crate) fn at(&mut self, done: usize, all: usize) {
        let percent = 100 * done / all;
        if self.terminal && self.shown != Some(percent) {
            self.shown = Some(percent);
            eprint!("\r{} … {percent} %", self.name);
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.terminal {
            eprintln!();
        }
    }
}
