//! From one holder's close to the next holder's entry.
//!
//! Whatever takes part has been idle for the same time before: its connection and the processor.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use guard_conformance::PATIENCE;
use guard_core::{SandboxExecutionGuard, SandboxIsolationKey, SandboxLease};
use guard_redis::RedisSandboxExecutionGuard;
use guard_store_tests::redis_server::RedisServer;
use rand::Rng;
use redis::Connection;
use rustix::time::{ClockId, clock_gettime};

use crate::floor::{self, BareLock};
use crate::guards;
use crate::other_process::OtherProcess;
use crate::samples::{Turn, nanos};

/// What rests before it is measured rests for so long.
pub const IDLE: Duration = Duration::from_millis(15);
/// How often the reference looks.
pub const POLLING: Duration = Duration::from_millis(500);

const SLOT: &str = "a";
const BARE_SLOT: &str = "bare:agent:a";
const CHANNEL: &str = "bare:free";

/// Nanoseconds of the clock that all processes of the machine share.
#[must_use]
pub fn clock() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Someone who uses the slot.
pub trait Side {
    /// Waits for the slot and takes it.
    fn enter(&mut self);
    /// Frees it; answers what the clock showed before.
    fn close(&mut self) -> i64;
}

/// A guard of this process.
pub struct Guarded {
    guard: RedisSandboxExecutionGuard,
    key: SandboxIsolationKey,
    lease: Option<SandboxLease>,
}

impl Guarded {
    /// A side that uses the guard.
    #[must_use]
    pub fn new(guard: RedisSandboxExecutionGuard) -> Self {
        Self {
            guard,
            key: guards::key(SLOT),
            lease: None,
        }
    }
}

impl Side for Guarded {
    fn enter(&mut self) {
        self.lease = Some(self.guard.try_enter_for(&self.key, PATIENCE).unwrap());
    }

    fn close(&mut self) -> i64 {
        let lease = self.lease.take().expect("the slot is held");
        let before = clock();
        lease.close();
        before
    }
}

/// A bare connection that looks again and again.
struct Polling(BareLock);

impl Side for Polling {
    fn enter(&mut self) {
        // The holder closes at any point of the interval.
        let mut pause = POLLING.mul_f64(rand::rng().random());
        while !self.0.try_enter() {
            thread::sleep(pause);
            pause = POLLING;
        }
    }

    fn close(&mut self) -> i64 {
        let before = clock();
        self.0.close();
        before
    }
}

/// A bare connection whose holder tells a channel that the slot is free, and another that listens.
struct PubSub {
    lock: BareLock,
    channel: Connection,
}

impl PubSub {
    fn new(server: &RedisServer) -> Self {
        let mut channel = floor::connection(server);
        let _: redis::Value = redis::cmd("SUBSCRIBE")
            .arg(CHANNEL)
            .query(&mut channel)
            .unwrap();
        Self {
            lock: BareLock::new(server, BARE_SLOT),
            channel,
        }
    }
}

impl Side for PubSub {
    fn enter(&mut self) {
        while !self.lock.try_enter() {
            self.channel.recv_response().unwrap();
        }
    }

    fn close(&mut self) -> i64 {
        let before = clock();
        self.lock.close_and_publish(CHANNEL);
        before
    }
}

/// A holder, and a thread that waits for the slot whenever it is told to.
pub struct Handover {
    holder: Box<dyn Side>,
    // `None` when this is being dropped.
    go: Option<Sender<()>>,
    entered: Receiver<i64>,
    waiter: Option<JoinHandle<()>>,
}

impl Handover {
    fn new(holder: impl Side + 'static, mut waiter: impl Side + Send + 'static) -> Self {
        let (go, told) = mpsc::channel();
        let (tell, entered) = mpsc::channel();
        let waiter = thread::spawn(move || {
            for () in told {
                waiter.enter();
                let now = clock();
                waiter.close();
                if tell.send(now).is_err() {
                    return;
                }
            }
        });
        Self {
            holder: Box::new(holder),
            go: Some(go),
            entered,
            waiter: Some(waiter),
        }
    }

    /// The holder is another process.
    #[must_use]
    pub fn between_processes(server: &RedisServer) -> Self {
        let waiter = guards::redis(server).build().unwrap();
        Self::new(OtherProcess::start(server), Guarded::new(waiter))
    }

    /// The holder and the waiter are threads that use one guard.
    #[must_use]
    pub fn between_threads(server: &RedisServer) -> Self {
        let guard = guards::redis(server).build().unwrap();
        Self::new(Guarded::new(guard.clone()), Guarded::new(guard))
    }

    /// The waiter looks every 500 ms, as the reference does, on a bare connection.
    #[must_use]
    pub fn by_polling(server: &RedisServer) -> Self {
        let side = || Polling(BareLock::new(server, BARE_SLOT));
        Self::new(side(), side())
    }

    /// The holder tells a channel, on bare connections.
    #[must_use]
    pub fn by_publishing(server: &RedisServer) -> Self {
        Self::new(PubSub::new(server), PubSub::new(server))
    }

    /// Hands the slot over once; answers how long that took.
    pub fn round(&mut self) -> Duration {
        self.holder.enter();
        self.go.as_ref().expect("not dropped").send(()).unwrap();
        // The waiter looks, watches and looks again within this time, and then sleeps.
        thread::sleep(2 * IDLE);
        let closed = self.holder.close();
        let entered = self.entered.recv_timeout(PATIENCE).unwrap();
        Duration::from_nanos(u64::try_from(entered - closed).unwrap_or_default())
    }

    /// Rounds that take turns with others.
    #[must_use]
    pub fn turn(mut self) -> Turn<'static> {
        Box::new(move || nanos(self.round()))
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.go = None;
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
    }
}

/// A PING on a connection that was idle as everything else.
pub fn idle_ping(server: &RedisServer) -> Turn<'static> {
    let mut ping = floor::ping(server);
    Box::new(move || {
        thread::sleep(IDLE);
        let before = clock();
        ping();
        (clock() - before) as f64
    })
}
