//! Faults, one or two at a time.

use std::thread;
use std::time::Duration;

use guard_conformance::proxy::{Direction, Proxy};
use guard_store_tests::history::{Nanos, now};
use guard_store_tests::random::Random;
use guard_store_tests::redis_server::RedisServer;

/// Whether the store may lose what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Kept,
    Lost,
}

/// Faults that last for a while.
#[derive(Clone, Copy, Debug)]
enum Lasting {
    Nothing,
    Delay,
    BlackHole,
    Refuse,
    HoldBack,
    StopServer,
    PauseAll,
    PauseWrites,
    Full,
    Busy,
}

/// Faults of a moment.
#[derive(Clone, Copy, Debug)]
enum Sudden {
    Nothing,
    CutAll,
    CutSoon,
    KillClients,
    FlushScripts,
}

const LASTING: [Lasting; 10] = [
    Lasting::Nothing,
    Lasting::Delay,
    Lasting::BlackHole,
    Lasting::Refuse,
    Lasting::HoldBack,
    Lasting::StopServer,
    Lasting::PauseAll,
    Lasting::PauseWrites,
    Lasting::Full,
    Lasting::Busy,
];
const SUDDEN: [Sudden; 5] = [
    Sudden::Nothing,
    Sudden::CutAll,
    Sudden::CutSoon,
    Sudden::KillClients,
    Sudden::FlushScripts,
];

/// How long all is well around a loss of memory, so that its bound is that of a store that can be reached.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) struct Chaos {
    server: RedisServer,
    proxies: [Proxy; 2],
    random: Random,
    memory: Memory,
    losses: Vec<(Nanos, Nanos)>,
}

impl Chaos {
    pub(crate) fn new(
        server: RedisServer,
        proxies: [Proxy; 2],
        random: Random,
        memory: Memory,
    ) -> Self {
        let threshold = server.cli(&["CONFIG", "SET", "busy-reply-threshold", "20"]);
        assert_eq!(threshold, "OK");
        Self {
            server,
            proxies,
            random,
            memory,
            losses: Vec::new(),
        }
    }

    /// When the memory was there last, and when it was gone, for each loss.
    pub(crate) fn losses(&self) -> Vec<(Nanos, Nanos)> {
        self.losses.clone()
    }

    pub(crate) fn into_server(self) -> RedisServer {
        self.server
    }

    /// One round: something fails for a while, perhaps something else in the middle, then all is well again.
    pub(crate) fn strike(&mut self) {
        if self.memory == Memory::Lost && self.random.below(4) == 0 {
            return self.lose_memory();
        }
        let lasting = *self.random.one_of(&LASTING);
        let sudden = *self.random.one_of(&SUDDEN);
        let time = match self.random.below(8) {
            // Longer than the TTL.
            0 => self.random.millis(1_500, 3_000),
            _ => self.random.millis(20, 1_000),
        };
        // One process's way to the server, or both.
        let affected = match self.random.below(3) {
            2 => 0..2,
            one => one as usize..one as usize + 1,
        };
        let busy = self.begin(lasting, time, affected.clone());
        thread::sleep(time / 2);
        // A server that is stopped, paused or busy takes no orders.
        let reachable = matches!(
            lasting,
            Lasting::Nothing
                | Lasting::Delay
                | Lasting::BlackHole
                | Lasting::Refuse
                | Lasting::HoldBack
        );
        self.suddenly(sudden, reachable, affected.clone());
        thread::sleep(time / 2);
        self.end(lasting, affected);
        if let Some(busy) = busy {
            // A script that has only just begun cannot be killed yet.
            while !busy.is_finished() {
                self.server.cli(&["SCRIPT", "KILL"]);
                thread::sleep(Duration::from_millis(10));
            }
            busy.join().unwrap();
        }
        let pause = self.random.millis(0, 600);
        thread::sleep(pause);
    }

    fn begin(
        &mut self,
        lasting: Lasting,
        time: Duration,
        affected: std::ops::Range<usize>,
    ) -> Option<thread::JoinHandle<()>> {
        let millis = time.as_millis().to_string();
        match lasting {
            Lasting::StopServer => self.server.stop_process(),
            Lasting::PauseAll => drop(self.server.cli(&["CLIENT", "PAUSE", &millis, "ALL"])),
            Lasting::PauseWrites => drop(self.server.cli(&["CLIENT", "PAUSE", &millis, "WRITE"])),
            Lasting::Full => drop(self.server.cli(&["CONFIG", "SET", "maxmemory", "1"])),
            Lasting::Busy => {
                let url = self.server.url();
                return Some(thread::spawn(move || {
                    let client = redis::Client::open(url).unwrap();
                    let mut connection = client.get_connection().unwrap();
                    let endless = redis::cmd("EVAL")
                        .arg("while true do end")
                        .arg(0)
                        .to_owned();
                    // It is killed, or its connection is.
                    let _ = endless.exec(&mut connection);
                }));
            }
            _ => {}
        }
        let delay = self.random.millis(1, 200);
        for proxy in &self.proxies[affected] {
            match lasting {
                Lasting::Delay => proxy.delay(delay),
                Lasting::BlackHole => proxy.black_hole(true),
                Lasting::Refuse => proxy.refuse(true),
                Lasting::HoldBack => proxy.hold_next(),
                _ => {}
            }
        }
        None
    }

    fn suddenly(&mut self, sudden: Sudden, reachable: bool, affected: std::ops::Range<usize>) {
        match sudden {
            Sudden::KillClients if reachable => {
                self.server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            Sudden::FlushScripts if reachable => drop(self.server.cli(&["SCRIPT", "FLUSH"])),
            _ => {}
        }
        let way = *self.random.one_of(&[Direction::Request, Direction::Reply]);
        let bytes = self.random.below(600);
        for proxy in &self.proxies[affected] {
            match sudden {
                Sudden::CutAll => proxy.cut_all(),
                Sudden::CutSoon => proxy.cut_after(way, usize::try_from(bytes).unwrap()),
                _ => {}
            }
        }
    }

    fn end(&self, lasting: Lasting, affected: std::ops::Range<usize>) {
        match lasting {
            Lasting::StopServer => self.server.cont_process(),
            Lasting::PauseAll | Lasting::PauseWrites => {
                self.server.cli(&["CLIENT", "UNPAUSE"]);
            }
            Lasting::Full => drop(self.server.cli(&["CONFIG", "SET", "maxmemory", "0"])),
            _ => {}
        }
        for proxy in &self.proxies[affected] {
            proxy.heal();
        }
    }

    fn lose_memory(&mut self) {
        let restart = self.random.below(2) == 0;
        thread::sleep(QUIET / 4);
        let from = now();
        if restart {
            self.server.restart();
        } else {
            assert_eq!(self.server.cli(&["FLUSHALL"]), "OK");
        }
        self.losses.push((from, now()));
        if restart {
            self.server
                .cli(&["CONFIG", "SET", "busy-reply-threshold", "20"]);
        }
        thread::sleep(QUIET);
    }
}
