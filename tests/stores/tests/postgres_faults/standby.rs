//! A standby, whose advisory locks exclude nobody.

use std::time::Duration;

use guard_conformance::eventually;
use guard_core::SandboxExecutionGuard;
use guard_store_tests::postgres_server::{Postgres, PostgresServer};

use crate::database_faults::{builder, enter, key};

#[test]
fn a_standby_is_refused_until_it_is_promoted() {
    let primary = PostgresServer::start();
    let standby = primary.standby();
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()"), "t");
    let at_standby = || {
        let builder = builder::<Postgres>(&standby.url());
        builder.outage_tolerance(Duration::ZERO).build()
    };
    let error = at_standby().expect_err("a standby");
    assert!(error.is_transient(), "{error:?}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("standby"), "{source}");
    let on_primary = builder::<Postgres>(&primary.url()).build().unwrap();
    let _lease = enter(&on_primary, &key("a"));
    standby.sql("SELECT pg_promote()");
    eventually("the promoted server lets in", || {
        at_standby().is_ok_and(|guard| guard.try_enter(&key("a")).is_ok())
    });
}

/// A lock that the server keeps although it says that it is unlocked. The session would get it once more.
#[test]
fn a_session_that_still_carries_a_lock_takes_no_other() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE FUNCTION public.pg_advisory_unlock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    );
    server.sql("ALTER ROLE postgres SET search_path = public, pg_catalog");
    let guard = builder::<Postgres>(&server.url())
        .outage_tolerance(Duration::ZERO)
        .build()
        .unwrap();
    drop(enter(&guard, &key("a")));
    let error = guard.try_enter_now(&key("a")).expect_err("it carries one");
    assert!(!error.is_transient(), "{error:?}");
    // The session is given up, and the lock with it.
    eventually("the slot is free", || {
        matches!(guard.try_enter_now(&key("a")), Ok(Some(_)))
    });
}
