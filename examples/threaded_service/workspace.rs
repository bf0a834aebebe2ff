//! The agents' directories, and the ledger in each: the thing that two jobs at once would spoil.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

/// The ledger's name in an agent's directory.
const LEDGER: &str = "ledger";

/// A directory with one directory an agent.
pub(crate) struct Workspace {
    root: PathBuf,
    /// Removes the directory with everything in it at the end, if it was made for this run.
    _temporary: Option<TempDir>,
}

impl Workspace {
    /// Uses `dir`, which other processes may share, or else a fresh directory that is removed at the end.
    pub(crate) fn open(dir: Option<&Path>) -> Result<Self, FileError> {
        if let Some(dir) = dir {
            return Ok(Self {
                root: dir.to_owned(),
                _temporary: None,
            });
        }
        let temporary = tempfile::Builder::new()
            .prefix("threaded_service-")
            .tempdir()
            .map_err(FileError::at(&std::env::temp_dir()))?;
        Ok(Self {
            root: temporary.path().to_owned(),
            _temporary: Some(temporary),
        })
    }

    /// The directory of an agent, made if need be.
    pub(crate) fn agent(&self, id: &str) -> Result<AgentDir, FileError> {
        let dir = self.root.join(id);
        fs::create_dir_all(&dir).map_err(FileError::at(&dir))?;
        Ok(AgentDir { dir })
    }
}

/// The directory of an agent.
pub(crate) struct AgentDir {
    dir: PathBuf,
}

impl AgentDir {
    /// Reads the ledger; where there is none yet it is empty.
    pub(crate) fn read(&self) -> Result<Ledger, FileError> {
        let path = self.dir.join(LEDGER);
        match fs::read_to_string(&path) {
            Ok(text) => Ledger::parse(&text).ok_or_else(|| {
                let reason = io::Error::new(ErrorKind::InvalidData, "it is not a ledger");
                FileError::at(&path)(reason)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(FileError::at(&path)(error)),
        }
    }

    /// Replaces the ledger in one step, so that even a job without a guard reads a whole one.
    pub(crate) fn write(&self, ledger: &Ledger) -> Result<(), FileError> {
        let path = self.dir.join(LEDGER);
        let replace = || {
            let mut file = NamedTempFile::new_in(&self.dir)?;
            file.write_all(ledger.to_text().as_bytes())?;
            file.persist(&path)?;
            Ok(())
        };
        replace().map_err(FileError::at(&path))
    }
}

/// How many updates each process has made: a line `<process> <number>` each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger(BTreeMap<String, u64>);

impl Ledger {
    fn parse(text: &str) -> Option<Self> {
        let entry = |line: &str| {
            let (process, updates) = line.split_once(' ')?;
            Some((process.to_owned(), updates.parse().ok()?))
        };
        text.lines().map(entry).collect::<Option<_>>().map(Self)
    }

    fn to_text(&self) -> String {
        let line = |(process, updates)| format!("{process} {updates}\n");
        self.0.iter().map(line).collect()
    }

    /// Counts one more update of a process.
    pub(crate) fn add_update_of(&mut self, process: &str) {
        let updates = self.0.entry(process.to_owned()).or_default();
        *updates = updates.saturating_add(1);
    }

    /// The updates of one process.
    pub(crate) fn updates_of(&self, process: &str) -> u64 {
        self.0.get(process).copied().unwrap_or_default()
    }

    /// The updates of all processes.
    pub(crate) fn updates(&self) -> u64 {
        self.0.values().fold(0, |sum, &n| sum.saturating_add(n))
    }
}

/// A file or directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}", path.display())]
pub(crate) struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_comes_back_as_it_was_written() {
        let workspace = Workspace::open(None).unwrap();
        let agent = workspace.agent("a").unwrap();
        assert_eq!(agent.read().unwrap(), Ledger::default());

        let mut ledger = Ledger::default();
        for process in ["one", "two", "one"] {
            ledger.add_update_of(process);
        }
        agent.write(&ledger).unwrap();
        let read = agent.read().unwrap();
        assert_eq!(read, ledger);
        assert_eq!((read.updates_of("one"), read.updates()), (2, 3));
    }

    #[test]
    fn a_temporary_workspace_is_removed() {
        let workspace = Workspace::open(None).unwrap();
        let root = workspace.root.clone();
        workspace.agent("a").unwrap();
        drop(workspace);
        assert!(!root.exists());
    }

    #[test]
    fn a_file_that_is_no_ledger_is_an_error_that_names_it() {
        let workspace = Workspace::open(None).unwrap();
        let agent = workspace.agent("a").unwrap();
        fs::write(agent.dir.join(LEDGER), "hello").unwrap();
        let error = agent.read().unwrap_err();
        assert!(error.to_string().contains("a/ledger"), "{error}");
    }
}
