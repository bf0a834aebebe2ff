//! What crates.io has for the same job: a section of each, on the same server, with the same TTL.

use guard_store_tests::redis_server::RedisServer;

use crate::guards::TTL;

/// `redlock`: synchronous; a connection for each command.
pub fn redlock(server: &RedisServer) -> impl FnMut() + use<> {
    let manager = redlock::RedLock::new(vec![server.url()]);
    move || {
        let lock = manager.lock(b"redlock:a", TTL.as_millis() as usize);
        manager.unlock(&lock.unwrap().expect("a free slot"));
    }
}

/// `redsync`: synchronous; a connection for each command.
pub fn redsync(server: &RedisServer) -> impl FnMut() + use<> {
    let instance = redsync::RedisInstance::new(server.url()).unwrap();
    let manager = redsync::Redsync::new(vec![instance]);
    move || {
        let lock = manager.lock("redsync:a", TTL).unwrap();
        manager.unlock(&lock).unwrap();
    }
}

/// `rslock`: asynchronous, on a runtime of this thread; one connection for all.
pub fn rslock(server: &RedisServer) -> impl FnMut() + use<> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let manager = rslock::LockManager::new(vec![server.url()]);
    move || {
        runtime.block_on(async {
            let lock = manager.lock("rslock:a", TTL).await.unwrap();
            manager.unlock(&lock).await;
        });
    }
}
