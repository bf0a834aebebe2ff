//! From the holder's close to the waiter's return, and what an entry costs, beside a `SELECT 1`, on a real
//! MariaDB server.
//!
//! Two guards of this process play two processes: they share nothing but the server, and one clock reads
//! both ends. Everything that is measured has been idle for the same time before: its connection and the
//! processor. The ratios that are promised are those of an optimised build on a machine with a processor to
//! spare: `cargo test --release -p guard-conformance --test mariadb_timings -- --nocapture`. Other builds are
//! held to wide ones: a lost wake-up costs a hundred times as much and shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::mariadb_server::MariaDbServer;
use guard_conformance::measure::{Times, alone, one_of_three};
use guard_conformance::{PATIENCE, eventually};
use guard_mysql::{
    IsolationScope, MySqlSandboxExecutionGuard, SandboxExecutionGuard, SandboxIsolationKey,
};
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 120;
/// The first rounds open connections, and are not counted.
const WARM_UP: usize = 10;
const IDLE: Duration = Duration::from_millis(15);

/// The bound that is promised, or in a build without optimisation the wide one.
const fn bound(promised: f64, wide: f64) -> f64 {
    if cfg!(debug_assertions) {
        wide
    } else {
        promised
    }
}

fn key() -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, "a").unwrap()
}

fn guard(server: &MariaDbServer) -> MySqlSandboxExecutionGuard {
    MySqlSandboxExecutionGuard::builder(&server.url())
        .build()
        .unwrap()
}

/// A connection of its own, on the calling thread.
struct Client {
    runtime: Runtime,
    connection: Conn,
}

impl Client {
    fn connect(server: &MariaDbServer) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let options = mysql_async::Opts::from_url(&server.url()).unwrap();
        let options = mysql_async::OptsBuilder::from_opts(options).prefer_socket(false);
        let connection = runtime.block_on(Conn::new(options)).unwrap();
        Self {
            runtime,
            connection,
        }
    }

    fn number(&mut self, sql: &str) -> u64 {
        let number = self.connection.query_first(sql);
        self.runtime.block_on(number).unwrap().unwrap()
    }
}

/// Times `SELECT 1` on a connection of its own.
fn select_one(server: &MariaDbServer) -> impl FnMut() -> Duration {
    let mut client = Client::connect(server);
    move || {
        thread::sleep(IDLE);
        let before = Instant::now();
        client.number("SELECT 1");
        before.elapsed()
    }
}

fn judge(what: &str, times: &Times, ones: &Times, trips: f64) -> Result<(), String> {
    let found = times.median().as_secs_f64() / ones.median().as_secs_f64();
    let text = format!("{found:.2} round trips; {what}: {times}; SELECT 1: {ones}");
    println!("{text}");
    if found <= trips { Ok(()) } else { Err(text) }
}

#[test]
fn a_waiter_is_in_within_three_round_trips_of_another_guards_close() {
    let _alone = alone();
    let server = MariaDbServer::start();
    let (holding, waiting) = (guard(&server), guard(&server));
    let (go, told) = mpsc::channel::<()>();
    let (tell, entered) = mpsc::channel();
    let waiter = thread::spawn(move || {
        for () in told {
            let lease = waiting.try_enter_for(&key(), PATIENCE).unwrap();
            let now = Instant::now();
            drop(lease);
            tell.send(now).unwrap();
        }
    });
    let mut client = Client::connect(&server);
    let mut is_blocked = || {
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'";
        client.number(sql) == 1
    };
    let mut select_one = select_one(&server);
    one_of_three(|| {
        let (mut ones, mut wakes) = (Times::default(), Times::default());
        for round in 0..WARM_UP + ROUNDS {
            let lease = holding.try_enter_for(&key(), PATIENCE).unwrap();
            go.send(()).unwrap();
            eventually("it waits at the server", &mut is_blocked);
            let first = (round % 2 == 0).then(&mut select_one);
            thread::sleep(IDLE);
            let before = Instant::now();
            drop(lease);
            let wake = entered.recv_timeout(PATIENCE).unwrap();
            let one = first.unwrap_or_else(&mut select_one);
            if round >= WARM_UP {
                ones.add(one);
                wakes.add(wake.saturating_duration_since(before));
            }
        }
        judge("wake-up", &wakes, &ones, bound(3.0, 15.0))
    });
    drop(go);
    waiter.join().unwrap();
}

#[test]
fn an_entry_and_its_close_take_few_round_trips() {
    let _alone = alone();
    let server = MariaDbServer::start();
    let guard = guard(&server);
    let mut select_one = select_one(&server);
    one_of_three(|| {
        let (mut ones, mut sections) = (Times::default(), Times::default());
        for round in 0..WARM_UP + ROUNDS {
            thread::sleep(IDLE);
            let before = Instant::now();
            guard.try_enter_now(&key()).unwrap().unwrap().close();
            let section = before.elapsed();
            let one = select_one();
            if round >= WARM_UP {
                sections.add(section);
                ones.add(one);
            }
        }
        judge("entry and close", &sections, &ones, bound(6.0, 30.0))
    });
}
