//! The processes that use leases while everything fails.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::Proxy;
use guard_core::DEFAULT_KEY_PREFIX;
use guard_store_tests::history::History;
use tempfile::TempDir;

const THREADS: usize = 4;
/// How long after its time a client may go on: it finishes its last section.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Clients {
    clients: Vec<Child>,
    histories: TempDir,
    end: Instant,
}

impl Clients {
    pub(crate) fn start(proxies: &[Proxy], storage: u16, seed: u64, length: Duration) -> Self {
        let histories = tempfile::tempdir().unwrap();
        let start = |(number, proxy): (usize, &Proxy)| {
            let seed = seed.wrapping_add(1_000 * (number as u64 + 1));
            let mut client = Command::new(env!("CARGO_BIN_EXE_chaos_client"))
                .args([
                    &format!("client-{number}"),
                    &proxy.url(),
                    DEFAULT_KEY_PREFIX,
                ])
                .args([storage.to_string(), seed.to_string()])
                .args([length.as_millis().to_string(), THREADS.to_string()])
                .arg(histories.path().join(number.to_string()))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = String::new();
            let output = client.stdout.take().unwrap();
            BufReader::new(output).read_line(&mut ready).unwrap();
            assert_eq!(ready, "ready\n");
            client
        };
        Self {
            clients: proxies.iter().enumerate().map(start).collect(),
            histories,
            end: Instant::now() + length,
        }
    }

    /// Waits for the clients' end, and reads their histories.
    pub(crate) fn finish(mut self) -> History {
        let mut text = String::new();
        for (number, client) in self.clients.iter_mut().enumerate() {
            let status = loop {
                if let Some(status) = client.try_wait().unwrap() {
                    break status;
                }
                if Instant::now() > self.end + PATIENCE {
                    let stacks = stuck(client);
                    client.kill().unwrap();
                    panic!("client {number} is stuck:\n{stacks}");
                }
                thread::sleep(Duration::from_millis(5));
            };
            assert!(status.success(), "client {number}: {status}");
            let history = self.histories.path().join(number.to_string());
            text.push_str(&fs::read_to_string(history).unwrap());
        }
        if let Ok(kept) = std::env::var("GUARD_CHAOS_HISTORY") {
            fs::write(kept, &text).unwrap();
        }
        History::read(&text).unwrap()
    }
}

/// The names of a client's threads and what they wait for.
fn stuck(client: &Child) -> String {
    let tasks = fs::read_dir(format!("/proc/{}/task", client.id())).unwrap();
    let tell = |task: std::io::Result<fs::DirEntry>| {
        let path = task.ok()?.path();
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let waits = fs::read_to_string(path.join("wchan")).ok()?;
        Some(format!("{}: {waits}\n", name.trim()))
    };
    tasks.filter_map(tell).collect()
}
