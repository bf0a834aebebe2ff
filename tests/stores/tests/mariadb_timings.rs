//! What entries and hand-overs take on a real MariaDB server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "database_timings/mod.rs"]
mod database_timings;

use guard_store_tests::mariadb_server::MariaDbServer;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::runtime::Builder;

/// A connection of its own, on the calling thread.
fn connect(server: &MariaDbServer) -> impl FnMut(&str) -> u64 + use<> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options = OptsBuilder::from_opts(Opts::from_url(&server.url()).unwrap());
    let connecting = Conn::new(options.prefer_socket(false));
    let mut connection = runtime.block_on(connecting).unwrap();
    move |sql| {
        let number = connection.query_first(sql);
        runtime.block_on(number).unwrap().unwrap()
    }
}

#[test]
fn a_waiter_is_in_within_three_round_trips_of_another_guards_close() {
    database_timings::a_waiter_is_in_within_three_round_trips_of_another_guards_close(connect);
}

#[test]
fn an_entry_and_its_close_take_few_round_trips() {
    database_timings::an_entry_and_its_close_take_few_round_trips(connect);
}
