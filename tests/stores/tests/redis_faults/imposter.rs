//! Servers that are none: they accept, and then do nothing, hang up, or take their time.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use guard_redis::{ConfigError, RedisSandboxExecutionGuard};
use guard_store_tests::everything_said;

use crate::SLACK;

/// Serves each connection on a thread, until the test's process ends; answers the port.
fn serve(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(connection.unwrap()));
        }
    });
    port
}

/// The builder fails within its timeout, with an error that may pass and no password in it.
#[track_caller]
fn assert_fails_in_time(port: u16, timeout: Duration, slack: Duration) {
    for (credentials, database) in [("", ""), (":hunter2@", "/3"), ("user:hunter2@", "/3")] {
        let url = format!("redis://{credentials}127.0.0.1:{port}{database}");
        let before = Instant::now();
        let built = RedisSandboxExecutionGuard::builder(url)
            .operation_timeout(timeout)
            .build();
        let took = before.elapsed();
        let error = built.expect_err("no Redis server");
        assert!(took < timeout + slack, "took {took:?}: {error}");
        assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
        assert!(error.is_transient(), "{error:?}");
        let text = everything_said(&error);
        assert!(text.contains(&port.to_string()), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_server_that_never_answers_fails_the_builder_in_time() {
    let mute = serve(|connection| {
        thread::sleep(Duration::from_secs(120));
        drop(connection);
    });
    assert_fails_in_time(mute, Duration::from_millis(500), SLACK);
}

#[test]
fn a_server_that_does_not_even_accept_fails_the_builder_in_time() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_fails_in_time(port, Duration::from_millis(500), SLACK);
}

#[test]
fn a_server_that_hangs_up_fails_the_builder_in_time() {
    let closing = serve(drop);
    assert_fails_in_time(closing, Duration::from_secs(2), SLACK);
}

#[test]
fn a_server_that_hangs_up_after_a_question_fails_the_builder_in_time() {
    let closing = serve(|connection| {
        let mut line = String::new();
        let _ = BufReader::new(connection).read_line(&mut line);
    });
    assert_fails_in_time(closing, Duration::from_secs(2), SLACK);
}

#[test]
fn one_timeout_bounds_all_answers_together() {
    // Each answer alone is in time; two are not.
    let slow = serve(|connection| {
        let mut answers = connection.try_clone().unwrap();
        for line in BufReader::new(connection).lines().map_while(Result::ok) {
            // Each command begins with the number of its words.
            if line.starts_with('*') {
                thread::sleep(Duration::from_secs(2));
                if answers.write_all(b"+OK\r\n").is_err() {
                    return;
                }
            }
        }
    });
    let timeout = Duration::from_millis(2_400);
    for (credentials, database) in [(":hunter2@", "/3"), ("user:hunter2@", "/3")] {
        let url = format!("redis://{credentials}127.0.0.1:{slow}{database}");
        let before = Instant::now();
        let built = RedisSandboxExecutionGuard::builder(url)
            .operation_timeout(timeout)
            .build();
        let took = before.elapsed();
        assert!(built.is_err());
        // The second answer would come after 4 s.
        assert!(took < timeout + SLACK, "took {took:?}");
    }
}
