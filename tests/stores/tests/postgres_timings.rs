//! What entries and hand-overs take on a real PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "database_timings/mod.rs"]
mod database_timings;

use guard_store_tests::postgres_server::PostgresServer;
use postgres::{Client, NoTls, SimpleQueryMessage};

/// A connection of its own, on the calling thread.
fn connect(server: &PostgresServer) -> impl FnMut(&str) -> u64 + use<> {
    let mut client = Client::connect(&server.url(), NoTls).unwrap();
    move |sql| {
        let answer = client.simple_query(sql).unwrap();
        let mut numbers = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        numbers.next().unwrap()
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
