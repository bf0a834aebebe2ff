//! What a guard does to a pool that is its user's.

use guard_conformance::redis_server::RedisServer;
use guard_redis::{RedisSandboxExecutionGuard, SandboxExecutionGuard};
use redis::Client;

use crate::key;

#[test]
fn a_connection_that_was_replaced_speaks_as_the_client_does() {
    let server = RedisServer::start();
    let client = Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
    let pool = r2d2::Pool::builder()
        .max_size(1)
        .test_on_check_out(false)
        .build(client.clone())
        .unwrap();
    let guard = RedisSandboxExecutionGuard::from_pool(client, pool.clone())
        .build()
        .unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    drop(guard.try_enter(&key("a")).unwrap());
    let mut connection = pool.get().unwrap();
    let info: String = redis::cmd("CLIENT")
        .arg("INFO")
        .query(&mut *connection)
        .unwrap();
    assert!(info.contains(" resp=3"), "{info}");
}
