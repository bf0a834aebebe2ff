//! The least that the same work takes on the same store.

use std::collections::HashMap;
use std::sync::Arc;

use guard_store_tests::redis_server::RedisServer;
use parking_lot::Mutex;
use redis::{Connection, Script};

use crate::guards::TTL;

/// The script by which the guard releases.
const RELEASE: &str = include_str!("../../guard-redis/scripts/release.lua");
/// As long as a token of the guard.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A bare connection: no pool, no timeouts.
#[must_use]
pub fn connection(server: &RedisServer) -> Connection {
    server.client().get_connection().unwrap()
}

/// A lock on a bare connection.
pub struct BareLock {
    connection: Connection,
    release: String,
    slot: String,
}

impl BareLock {
    /// A lock on the slot, which is free.
    #[must_use]
    pub fn new(server: &RedisServer, slot: &str) -> Self {
        let mut connection = connection(server);
        let script = Script::new(RELEASE);
        script.prepare_invoke().load(&mut connection).unwrap();
        Self {
            connection,
            release: script.get_hash().to_owned(),
            slot: slot.to_owned(),
        }
    }

    /// `SET NX PX`, once; answers whether the slot was free.
    pub fn try_enter(&mut self) -> bool {
        let granted: Option<String> = redis::cmd("SET")
            .arg(&self.slot)
            .arg(TOKEN)
            .arg("NX")
            .arg("PX")
            .arg(TTL.as_millis() as u64)
            .query(&mut self.connection)
            .unwrap();
        granted.is_some()
    }

    /// `EVALSHA` of compare-and-delete.
    pub fn close(&mut self) {
        let released: u32 = self.release().query(&mut self.connection).unwrap();
        assert_eq!(released, 1, "the slot was held");
    }

    /// The same, and tells a channel, in one trip.
    pub fn close_and_publish(&mut self, channel: &str) {
        let release = self.release();
        let mut pipe = redis::pipe();
        pipe.add_command(release);
        pipe.cmd("PUBLISH").arg(channel).arg("free");
        let (released, _): (u32, u32) = pipe.query(&mut self.connection).unwrap();
        assert_eq!(released, 1, "the slot was held");
    }

    fn release(&self) -> redis::Cmd {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(&self.slot).arg(TOKEN);
        release
    }
}

/// The guard's two commands on one bare connection.
pub fn redis(server: &RedisServer) -> impl FnMut() + use<> {
    let mut lock = BareLock::new(server, "floor:agent:a");
    move || {
        assert!(lock.try_enter(), "a free slot");
        lock.close();
    }
}

/// One round trip.
pub fn ping(server: &RedisServer) -> impl FnMut() + use<> {
    let mut connection = connection(server);
    move || {
        let _: String = redis::cmd("PING").query(&mut connection).unwrap();
    }
}

/// A mutex for each slot that is held, found by the slot's name.
#[derive(Default)]
pub struct MutexMap(Mutex<HashMap<String, Arc<Mutex<()>>>>);

impl MutexMap {
    /// Makes the slot's mutex, locks it, unlocks it, and drops it again: a guard leaves nothing behind either.
    pub fn section(&self, slot: &str) {
        let mutex = Arc::clone(self.0.lock().entry(slot.to_owned()).or_default());
        drop(mutex.lock());
        self.0.lock().remove(slot);
    }
}

/// A slot's mutex in a map.
pub fn memory(value: &str) -> impl FnMut() + use<> {
    let map = MutexMap::default();
    let slot = format!("agentscope:sandbox:lock:agent:{value}");
    move || map.section(&slot)
}
