//! Storage that refuses a stale writer.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use guard_core::FencingToken;

/// Documents by name. Every write carries the fencing token of the lease under which it is made.
#[derive(Debug, Default)]
pub(crate) struct FencedStorage {
    /// Protects the documents. Checking the token and writing are one step: between two steps a newer
    /// holder could write.
    documents: Mutex<HashMap<String, Document>>,
}

#[derive(Debug)]
struct Document {
    /// The largest token seen.
    newest: FencingToken,
    text: String,
}

/// A write came from a holder whose slot has gone to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The token of the write.
    pub(crate) token: FencingToken,
    /// The largest token seen.
    pub(crate) newest: FencingToken,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, newest } = self;
        write!(
            f,
            "the write carries fencing token {token}, but {newest} has been seen"
        )
    }
}

impl Error for Stale {}

impl FencedStorage {
    /// Writes a document.
    ///
    /// # Errors
    ///
    /// [`Stale`] when a newer holder has written already. Nothing is changed then.
    pub(crate) fn write(&self, name: &str, token: FencingToken, text: &str) -> Result<(), Stale> {
        let mut documents = self
            .documents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = documents.get(name)
            && token < document.newest
        {
            let newest = document.newest;
            return Err(Stale { token, newest });
        }
        let (newest, text) = (token, text.to_owned());
        documents.insert(name.to_owned(), Document { newest, text });
        Ok(())
    }

    /// Reads a document.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let documents = self
            .documents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Some(documents.get(name)?.text.clone())
    }
}
