//! What PostgreSQL tells of a session.

use guard_core::SandboxExecutionGuard;
use guard_store_tests::database::Client;
use guard_store_tests::postgres_server::PostgresServer;

use crate::database_faults::{guard, key, slot};

#[test]
fn a_holder_is_shown_with_its_backend_and_its_age() {
    let server = PostgresServer::start();
    let mut psql = Client::start(&server);
    assert!(psql.lock(&slot(&key("a"))));
    let holder = guard(&server).holder(&key("a")).unwrap().unwrap();
    let description = format!("backend {} from 127.0.0.1", psql.id());
    assert_eq!(holder.description(), Some(&*description));
    assert!(holder.since().is_some());
}
