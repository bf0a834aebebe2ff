//! Servers and gateways that say what we know in words of their own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting};
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::logged::{listen, warnings};
use guard_store_tests::redis_server::RedisServer;
use log::LevelFilter::Warn;

use crate::{connections_so_far, key};

/// What is answered to commands that begin with these words, instead of what the server would say.
#[derive(Default)]
struct Answers {
    by_words: HashMap<&'static str, &'static str>,
    given: usize,
}

impl Answers {
    fn of(&mut self, command: &str) -> Option<&'static str> {
        let mut answers = self.by_words.iter();
        let (_, answer) = answers.find(|(words, _)| command.starts_with(**words))?;
        self.given += 1;
        Some(answer)
    }
}

/// A gateway in front of a server, which answers some commands by itself.
struct Gateway {
    port: u16,
    answers: Arc<Mutex<Answers>>,
}

impl Gateway {
    fn to(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Arc::<Mutex<Answers>>::default();
        let own = Arc::clone(&answers);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream)).unwrap();
                let (from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let passed_on = Arc::<Replies>::default();
                let replies = Arc::clone(&passed_on);
                thread::spawn(move || {
                    pass_on(&from, &to, &replies);
                    replies.passed(usize::MAX / 2);
                    let _ = to.flush();
                    let _ = to.shutdown(Shutdown::Both);
                });
                let answers = Arc::clone(&own);
                thread::spawn(move || {
                    serve(&client, &server, &answers, &passed_on);
                    let _ = server.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port, answers }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    fn answer(&self, command: &'static str, answer: &'static str) {
        let mut answers = self.answers.lock().unwrap();
        answers.by_words.insert(command, answer);
    }

    /// Waits until it has given so many answers of its own.
    fn wait_for_answers(&self, count: usize) {
        let start = Instant::now();
        while self.answers.lock().unwrap().given < count {
            assert!(start.elapsed() < PATIENCE, "nobody asks");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn answer_nothing_more(&self) {
        *self.answers.lock().unwrap() = Answers::default();
    }
}

/// How many of the server's replies were passed on: the gateway's own come in their turn.
#[derive(Default)]
struct Replies {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Replies {
    fn passed(&self, more: usize) {
        *self.count.lock().unwrap() += more;
        self.changed.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let passed = self.count.lock().unwrap();
        let waits = |passed: &mut usize| *passed < count;
        drop(self.changed.wait_while(passed, waits).unwrap());
    }
}

/// Passes replies of the server on.
fn pass_on(server: &TcpStream, mut client: &TcpStream, replies: &Replies) -> Option<()> {
    let mut reader = BufReader::new(server);
    loop {
        let mut bytes = Vec::new();
        reply(&mut reader, &mut bytes)?;
        client.write_all(&bytes).ok()?;
        replies.passed(1);
    }
}

/// Reads one reply.
fn reply(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> Option<()> {
    let start = bytes.len();
    let number = line(reader, bytes);
    let kind = bytes.get(start)?;
    match (kind, number) {
        (b'*', Some(count)) => (0..count).try_for_each(|_| reply(reader, bytes)),
        (b'$', Some(length)) => {
            let start = bytes.len();
            bytes.resize(start + length + 2, 0);
            reader.read_exact(&mut bytes[start..]).ok()
        }
        _ => Some(()),
    }
}

/// Reads commands, and answers them or passes them on.
fn serve(
    mut client: &TcpStream,
    mut server: &TcpStream,
    answers: &Mutex<Answers>,
    replies: &Replies,
) -> Option<()> {
    let mut reader = BufReader::new(client);
    let mut sent = 0;
    loop {
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        let count = line(&mut reader, &mut bytes)?;
        for _ in 0..count {
            let length = line(&mut reader, &mut bytes)?;
            let start = bytes.len();
            bytes.resize(start + length + 2, 0);
            reader.read_exact(&mut bytes[start..]).ok()?;
            words.push(String::from_utf8_lossy(&bytes[start..start + length]).to_uppercase());
        }
        let command = words.join(" ");
        let answer = answers.lock().unwrap().of(&command);
        match answer {
            Some(answer) => {
                replies.wait_for(sent);
                client.write_all(format!("-{answer}\r\n").as_bytes()).ok()?;
            }
            None => {
                sent += 1;
                server.write_all(&bytes).ok()?;
            }
        }
    }
}

/// One line with a number behind its first character.
fn line(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    bytes.extend_from_slice(line.as_bytes());
    line.get(1..)?.trim().parse().ok()
}

/// Optional commands, refused in words that nobody has seen before.
const OPTIONAL: [(&str, &str); 6] = [
    ("CLIENT INFO", "ERR no such thing here"),
    ("CLIENT TRACKING", "ERR tracking is not for you"),
    ("CLIENT", "ERR sorry"),
    ("SUBSCRIBE", "ERR no channels on this gateway"),
    ("INFO", "NOTHERE ask somebody else"),
    ("ROLE", "ERR sorry"),
];

#[test]
fn what_can_be_done_without_is_done_without_whatever_the_words() {
    listen(Warn);
    let no_wakeups = || {
        let warnings = warnings().into_iter();
        warnings.filter(|line| line.contains("no wake-ups")).count()
    };
    let server = RedisServer::start();
    for (command, words) in OPTIONAL {
        let warned = no_wakeups();
        let gateway = Gateway::to(server.port());
        gateway.answer(command, words);
        let guard = RedisSandboxExecutionGuard::builder(gateway.url())
            .retry_interval(Duration::from_millis(20))
            .build()
            .unwrap_or_else(|error| panic!("{command}: {error:?}"));
        let lease = guard.try_enter(&key(command)).unwrap();
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key(command), PATIENCE))
        };
        thread::sleep(Duration::from_secs(1));
        lease.close();
        assert!(waiting.result().is_ok(), "{command}");
        let connections = connections_so_far(&server);
        thread::sleep(Duration::from_secs(2));
        // One of them is `redis-cli`.
        assert!(connections_so_far(&server) <= connections + 2, "{command}");
        let refuses_wakeups = command.starts_with("CLIENT") || command == "SUBSCRIBE";
        let warnings = no_wakeups() - warned;
        assert_eq!(warnings, usize::from(refuses_wakeups), "{command}");
    }
}

/// What servers and gateways say while they cannot do what they could a moment ago.
#[test]
fn an_unknown_refusal_of_the_moment_is_waited_out() {
    let server = RedisServer::start();
    let gateway = Gateway::to(server.port());
    let guard = RedisSandboxExecutionGuard::builder(gateway.url())
        .build()
        .unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    for words in [
        "ERR max number of clients + cluster connections reached",
        "ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'.",
        "ERR Error running script (call to f_1): @user_script:5: @user_script: 5: OOM command not allowed",
        "ERR Host is down",
        "no upstream host",
        "upstream failure",
    ] {
        for command in ["SET", "EVALSHA"] {
            gateway.answer(command, words);
        }
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("a"), PATIENCE))
        };
        gateway.wait_for_answers(2);
        gateway.answer_nothing_more();
        assert!(waiting.result().is_ok(), "{words}");
    }
    gateway.answer("SET", "ERR unknown command 'SET'");
    let before = Instant::now();
    assert!(
        guard
            .try_enter(&key("a"))
            .is_err_and(|error| !error.is_transient())
    );
    assert!(before.elapsed() < PATIENCE);
}

#[test]
fn a_refused_password_is_permanent_in_whatever_words() {
    let server = RedisServer::start();
    let gateway = Gateway::to(server.port());
    gateway.answer("AUTH", "ERR who are you");
    let url = gateway.url().replace("redis://", "redis://:secret@");
    let error = RedisSandboxExecutionGuard::builder(url)
        .build()
        .expect_err("refused");
    assert!(!error.is_transient(), "{error:?}");
}

#[test]
fn a_server_that_repeats_a_password_is_not_repeated() {
    let server = RedisServer::start();
    let gateway = Gateway::to(server.port());
    gateway.answer(
        "AUTH",
        "ERR unknown command 'AUTH', with args beginning with: 'hunter2'",
    );
    let url = gateway.url().replace("redis://", "redis://:hunter2@");
    let error = RedisSandboxExecutionGuard::builder(url)
        .build()
        .expect_err("refused");
    let said = guard_store_tests::everything_said(&error);
    assert!(!said.contains("hunter2"), "{said}");
}
