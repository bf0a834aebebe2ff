//! The example's storage, for several processes. A line is a slot and a fencing token; each is answered.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use guard_core::FencingToken;

use crate::storage::FencedStorage;

/// The storage, and who wrote in which order.
#[derive(Default)]
struct Storage {
    documents: FencedStorage,
    /// Every write with its slot, its token, and whether it was taken.
    log: Mutex<Vec<(String, u64, bool)>>,
}

/// A storage at a port of its own, until the end of the process.
pub(crate) struct StorageServer {
    storage: Arc<Storage>,
    port: u16,
}

impl StorageServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let storage = Arc::<Storage>::default();
        let serving = Arc::clone(&storage);
        thread::spawn(move || {
            for client in listener.incoming() {
                let storage = Arc::clone(&serving);
                thread::spawn(move || storage.serve(client.unwrap()));
            }
        });
        Self { storage, port }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn writes(&self) -> usize {
        self.storage.log.lock().unwrap().len()
    }

    pub(crate) fn refused(&self) -> usize {
        let log = self.storage.log.lock().unwrap();
        log.iter().filter(|(_, _, taken)| !taken).count()
    }

    /// Asserts that no write was taken after one of a newer holder.
    pub(crate) fn assert_in_order(&self) {
        let mut newest: HashMap<&str, u64> = HashMap::new();
        let log = self.storage.log.lock().unwrap();
        for (slot, token, taken) in log.iter() {
            let newest = newest.entry(slot).or_default();
            assert_eq!(*taken, token >= newest, "{slot}: {token} after {newest}");
            *newest = (*newest).max(*token);
        }
    }
}

impl Storage {
    fn serve(&self, client: TcpStream) {
        let mut answers = client.try_clone().unwrap();
        for line in BufReader::new(client).lines() {
            let Ok(line) = line else { return };
            let (slot, token) = line.split_once(' ').unwrap();
            let token: u64 = token.parse().unwrap();
            {
                // Under one lock, so that the log is in the order of the writes.
                let mut log = self.log.lock().unwrap();
                let written = self.documents.write(slot, FencingToken::new(token), &line);
                log.push((slot.to_owned(), token, written.is_ok()));
            }
            if answers.write_all(b"\n").is_err() {
                return;
            }
        }
    }
}
