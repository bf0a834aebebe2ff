//! What is logged in this process. Tests that read it run one at a time.

use std::sync::{Mutex, Once};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Protects what was logged so far.
static LOGGED: Mutex<Logged> = Mutex::new(Logged {
    all: Vec::new(),
    warnings: Vec::new(),
});

struct Logged {
    all: Vec<String>,
    warnings: Vec<String>,
}

struct Keep;

impl Log for Keep {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        // Before the lock: what is logged may do whatever it likes.
        let line = record.args().to_string();
        let mut logged = LOGGED.lock().expect("no panic");
        if record.level() <= Level::Warn {
            logged.warnings.push(line.clone());
        }
        logged.all.push(line);
    }

    fn flush(&self) {}
}

/// Keeps from now on what is logged at `level`, and forgets earlier warnings.
///
/// # Panics
///
/// When somebody else keeps the log.
pub fn listen(level: LevelFilter) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| log::set_logger(&Keep).expect("the only logger"));
    log::set_max_level(level);
    LOGGED.lock().expect("no panic").warnings.clear();
}

/// The warnings and errors since the last [`listen`].
#[must_use]
pub fn warnings() -> Vec<String> {
    LOGGED.lock().expect("no panic").warnings.clone()
}

/// Whatever was kept since the first [`listen`].
#[must_use]
pub fn everything() -> String {
    LOGGED.lock().expect("no panic").all.join("\n")
}
