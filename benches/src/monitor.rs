//! Counts what clients ask a server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::{self, JoinHandle};

use guard_conformance::redis_server::RedisServer;

/// Commands by which connections are set up or checked: they are not counted.
const SET_UP: [&str; 9] = [
    "CLIENT",
    "AUTH",
    "SELECT",
    "HELLO",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "SCRIPT",
    "INFO",
    "PING",
];
const END: &str = "the end of counting";

/// Counts from `start` to `stop`, by MONITOR.
pub struct Monitor<'a> {
    server: &'a RedisServer,
    counting: JoinHandle<u64>,
}

impl<'a> Monitor<'a> {
    /// Begins to count.
    #[must_use]
    pub fn start(server: &'a RedisServer) -> Self {
        let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        monitor.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(monitor).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let counting = thread::spawn(move || {
            let mut count = 0;
            loop {
                let line = lines.next().expect("MONITOR goes on").unwrap();
                if line.contains(END) {
                    return count;
                }
                count += u64::from(counts(&line));
            }
        });
        Self { server, counting }
    }

    /// Answers how many commands clients sent, those inside scripts and those of set-up left out.
    #[must_use]
    pub fn stop(self) -> u64 {
        self.server.cli(&["ECHO", END]);
        self.counting.join().unwrap()
    }
}

/// Whether a line, `+TIME [DATABASE CLIENT] "COMMAND" "ARGUMENT" …`, tells of a command that counts.
fn counts(line: &str) -> bool {
    let (_, rest) = line.split_once('[').expect("a line of MONITOR");
    let (client, command) = rest.split_once("] \"").expect("a client and a command");
    let name = command.split('"').next().unwrap_or_default().to_uppercase();
    !client.ends_with(" lua") && !SET_UP.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn only_commands_of_clients_count() {
        assert!(counts(r#"+1.5 [0 127.0.0.1:1] "SET" "a [b] c" "d""#));
        assert!(counts(r#"+1.5 [0 127.0.0.1:1] "evalsha" "ab" "1""#));
        assert!(!counts(r#"+1.5 [0 lua] "SET" "a" "b""#));
        assert!(!counts(r#"+1.5 [0 127.0.0.1:1] "ping""#));
        assert!(!counts(r#"+1.5 [0 127.0.0.1:1] "CLIENT" "TRACKING" "ON""#));
    }
}
