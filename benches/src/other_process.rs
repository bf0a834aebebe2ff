//! A holder in a process of its own: the program that measures, started again.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::redis_server::RedisServer;

use crate::guards::TTL;
use crate::handover::{Guarded, Side};

/// Holds the address of the server in a process that is to be the holder, and is set in no other.
const ADDRESS: &str = "GUARD_BENCHES_HOLDER_OF";

/// In a process that was started to be the holder, does so to its end; answers whether it was one. Each `main`
/// that measures begins with this.
#[must_use]
pub fn was_the_holder() -> bool {
    let Ok(address) = env::var(ADDRESS) else {
        return false;
    };
    let guard = RedisSandboxExecutionGuard::builder(address).lease_ttl(TTL);
    let mut side = Guarded::new(guard.build().unwrap());
    // The pipe ends when the process that measures does.
    for line in io::stdin().lines().map_while(Result::ok) {
        match &*line {
            "enter" => {
                side.enter();
                println!("held");
            }
            "close" => println!("{}", side.close()),
            _ => panic!("unknown: {line:?}"),
        }
    }
    true
}

/// A process that enters and closes as it is told.
pub struct OtherProcess {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl OtherProcess {
    /// Starts the process.
    #[must_use]
    pub fn start(server: &RedisServer) -> Self {
        // Also right when the file has been built anew meanwhile.
        let mut child = Command::new("/proc/self/exe")
            .env(ADDRESS, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            to: child.stdin.take().expect("a pipe"),
            from: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    fn ask(&mut self, what: &str) -> String {
        self.to.write_all(what.as_bytes()).unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Side for OtherProcess {
    fn enter(&mut self) {
        assert_eq!(self.ask("enter\n"), "held");
    }

    fn close(&mut self) -> i64 {
        self.ask("close\n").parse().unwrap()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // An error would only say that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
