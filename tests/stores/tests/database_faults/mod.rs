//! Faults of a real database server, of its sessions and of the way to it, and other programs on its locks: the
//! scenes that every database passes. Each has a server of its own. A database joins with a target that has one
//! line, `database_faults!(…)`, beside the scenes that are its own.

#![allow(unreachable_pub, reason = "each target is a crate of its own")]

pub mod losses;
pub mod opening;
pub mod primaries;
pub mod refusals;
pub mod renewals;
pub mod secrets;
pub mod sharing;
pub mod stalls;
pub mod waits;

use std::time::Duration;

use guard_core::{
    DEFAULT_KEY_PREFIX, IsolationScope, KeyPrefix, SandboxExecutionGuard, SandboxIsolationKey,
    SandboxLease, SlotName,
};
use guard_store_tests::daemon::Daemon;
use guard_store_tests::database::{Database, GuardBuilder};

/// The scenes that every database passes, by the files that they are in.
macro_rules! database_faults {
    ($database:ty) => {
        scenes! {
            $database:
            losses {
                a_session_that_is_killed_is_reported_as_a_lost_lease,
                a_lease_is_lost_with_its_server_and_the_next_entry_meets_no_error,
                a_lease_whose_connection_is_cut_is_lost_and_frees_its_slot,
                a_holder_that_overstays_its_ttl_loses_the_slot,
                renewal_keeps_a_lease_beyond_its_ttl_until_max_hold,
                every_session_ends_with_its_guard,
                a_lease_whose_connection_is_cut_at_the_unlock_was_its_holders,
            }
            primaries {
                a_server_that_takes_no_writes_gives_no_lease_and_keeps_none,
                a_wait_is_granted_nothing_on_a_server_that_became_read_only_meanwhile,
            }
            renewals {
                a_long_way_costs_no_lease,
                a_session_that_stalls_costs_no_other_its_renewal,
            }
            opening {
                a_crowd_beside_a_stopped_server_leaves_few_connections,
                an_address_may_be_of_ipv6,
                why_nobody_could_connect_is_told_once,
                a_host_that_is_not_found_is_transient,
            }
            refusals {
                an_address_that_cannot_be_read_is_a_setting,
                wrong_settings_are_refused_by_name,
                nobody_there_and_nobody_who_answers_are_transient,
                a_login_that_is_refused_is_permanent_and_shows_no_password,
                too_many_connections_are_transient_and_no_answer_about_the_slot,
                a_holder_that_one_has_no_right_to_end_is_an_error_that_names_the_right,
                a_server_that_ends_idle_sessions_and_long_statements_does_not_end_ours,
            }
            secrets {
                no_part_of_a_password_shows_whatever_the_address,
                an_ambiguous_password_is_refused_with_the_remedy,
            }
            sharing {
                a_lock_of_another_client_keeps_us_out_until_it_is_freed,
                our_lease_keeps_another_client_out_until_it_is_closed,
                a_session_that_frees_its_slot_while_it_is_forced_off_keeps_its_next_lease,
            }
            stalls {
                a_stopped_server_holds_nobody_beyond_the_operation_timeout,
                a_black_hole_holds_nobody_and_leaves_no_lock,
                a_holder_that_does_not_hear_its_server_stops_believing_in_time,
                a_holder_that_its_server_does_not_hear_is_given_up,
                a_lock_call_that_is_executed_late_leaves_no_ghost,
                a_wait_under_way_ends_in_time_when_the_server_stops,
            }
            waits {
                two_hundred_waiters_of_a_slot_need_few_connections,
                slots_beyond_the_wait_connections_are_polled,
                a_wait_that_ends_leaves_no_session_in_the_queue,
                a_grant_that_meets_the_end_of_its_wait_is_given_back,
                a_wait_survives_the_end_of_its_session_and_of_its_server,
                no_wake_up_is_lost_in_a_storm,
            }
        }
    };
}

/// Makes a test of each scene.
macro_rules! scenes {
    ($database:ty: $($file:ident { $($scene:ident),+ $(,)? })+) => {
        mod shared {
            $(mod $file {
                $(#[test]
                fn $scene() {
                    crate::database_faults::$file::$scene::<$database>();
                })+
            })+
        }
    };
}

/// What a noisy machine may add to a bound that is promised.
pub const SLACK: Duration = Duration::from_millis(1_500);

/// Tells the sessions of guards from others.
pub const OWNER: &str = "a guard under test";

pub fn key(value: &str) -> SandboxIsolationKey {
    SandboxIsolationKey::new(IsolationScope::Agent, value).unwrap()
}

pub fn slot(key: &SandboxIsolationKey) -> SlotName {
    KeyPrefix::new(DEFAULT_KEY_PREFIX).unwrap().slot(key)
}

pub fn builder<D: Database>(address: &str) -> GuardBuilder<D> {
    GuardBuilder::new(address)
        .owner(OWNER)
        .retry_interval(Duration::from_millis(20))
}

pub fn guard<D: Database>(server: &Daemon<D>) -> D::Guard {
    builder::<D>(&server.url()).build().unwrap()
}

#[track_caller]
pub fn enter(guard: &impl SandboxExecutionGuard, key: &SandboxIsolationKey) -> SandboxLease {
    guard.try_enter_now(key).unwrap().expect("a free slot")
}

/// How many sessions guards have.
pub fn sessions<D: Database>(server: &Daemon<D>) -> usize {
    server.sessions(&format!("owner = '{OWNER}'"))
}

/// How many sessions of guards wait for a lock.
pub fn blocked<D: Database>(server: &Daemon<D>) -> usize {
    server.sessions(&format!("owner = '{OWNER}' AND waits"))
}
