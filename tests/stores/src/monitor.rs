//! Writes down what clients ask a Redis server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::{self, JoinHandle};

use crate::redis_server::RedisServer;

/// Commands by which connections are set up or checked: they are left out.
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
const END: &str = "the end of monitoring";

/// Writes down commands from `start` to `stop`, by MONITOR.
pub struct Monitor<'a> {
    server: &'a RedisServer,
    commands: JoinHandle<Vec<String>>,
}

impl<'a> Monitor<'a> {
    /// Begins to write down.
    ///
    /// # Panics
    ///
    /// When the server cannot be monitored.
    #[must_use]
    pub fn start(server: &'a RedisServer) -> Self {
        let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        monitor.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(monitor).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let commands = thread::spawn(move || {
            let mut commands = Vec::new();
            loop {
                let line = lines.next().expect("MONITOR goes on").unwrap();
                if line.contains(END) {
                    return commands;
                }
                if counts(&line) {
                    commands.push(line);
                }
            }
        });
        Self { server, commands }
    }

    /// Answers the commands that clients sent, those inside scripts and those of set-up left out.
    ///
    /// # Panics
    ///
    /// When the server has ended meanwhile.
    #[must_use]
    pub fn stop(self) -> Vec<String> {
        self.server.cli(&["ECHO", END]);
        self.commands.join().unwrap()
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
