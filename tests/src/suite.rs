//! The list of cases, which exists once, and how they run.

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use guard_core::Capabilities;
use libtest_mimic::{Arguments, Completion, Conclusion, Trial};

use crate::backend::Backend;
use crate::cases;

/// Cases mostly wait, so more of them run at once than there are processors.
const DEFAULT_TEST_THREADS: usize = 6;

struct Case {
    name: &'static str,
    needs: &'static [Need],
    run: fn(&dyn Backend),
}

/// What a store must be able to do for a case to apply to it.
#[derive(Clone, Copy)]
enum Need {
    Expiry,
    Fencing,
    /// The slot is the holder's session's: the opposite of `Expiry`.
    Sessions,
    Sharing,
    Foreigners,
    /// Foreign programs that write what they like.
    ForeignTokens,
    Wakeups,
    /// A way to the server that can be disturbed.
    Network,
}

impl Need {
    /// Why the case does not apply to a store; `None` if it does.
    fn missing(self, backend: &dyn Backend, store: &Capabilities) -> Option<&'static str> {
        let (there, reason) = match self {
            Self::Network => (backend.network().is_some(), "it is not reached by a port"),
            Self::Expiry => (store.expires, "its slots do not expire"),
            Self::Sessions => (!store.expires, "its slots outlive their holder's session"),
            Self::Fencing => (store.fencing, "it does not number its leases"),
            Self::Sharing => (store.shared, "processes cannot share it"),
            Self::Wakeups => (store.wakeups, "it does not tell of changes"),
            Self::Foreigners => (store.foreign_holders, "foreign programs cannot use it"),
            Self::ForeignTokens => (store.foreign_tokens, "its slots carry no text"),
        };
        (!there).then_some(reason)
    }

    /// What the backend lacks for what its store says that it can do.
    fn to_do(self, backend: &dyn Backend) -> Option<&'static str> {
        match self {
            Self::Sharing if backend.another_process().is_none() => Some(
                "processes share it: implement `Backend::another_process`, whose program is one line with \
                 `guard_conformance::lease_holder`",
            ),
            Self::Foreigners | Self::ForeignTokens if backend.foreign().is_none() => {
                Some("foreign programs can use it: implement `Backend::foreign`")
            }
            _ => None,
        }
    }
}

macro_rules! list {
    ($($topic:ident { $($case:ident $(needs $($need:ident)|+)?),+ $(,)? })+) => {
        [$($(Case {
            name: concat!(stringify!($topic), "::", stringify!($case)),
            needs: &[$($(Need::$need),+)?],
            run: cases::$topic::$case,
        }),+),+]
    };
}

fn all() -> impl IntoIterator<Item = Case> {
    list! {
        exclusion {
            one_holder_at_a_time_under_load,
            one_holder_at_a_time_across_two_guards,
            a_held_slot_lets_nobody_else_in,
            different_keys_do_not_block_each_other,
            waiters_of_one_slot_do_not_keep_others_from_another,
        }
        release {
            a_closed_lease_frees_its_slot_at_once,
            close_is_idempotent,
            close_works_from_another_thread,
            of_concurrent_closes_exactly_one_releases,
            drop_closes,
            unwinding_closes,
            run_closes_on_return_and_error,
            run_closes_on_a_panic,
            a_foreign_token_is_not_deleted_by_our_close needs ForeignTokens,
            closing_a_deleted_slot_answers_already_gone needs Foreigners,
        }
        expiry {
            an_expired_lease_lets_the_next_one_in,
            two_leases_are_never_valid_at_once,
            a_late_close_does_no_harm_to_the_next_holder,
            remaining_and_held_for_tell_a_leases_time,
            a_renewal_prolongs_the_lease,
            a_renewal_prolongs_the_lease_at_the_store needs Expiry,
            a_lease_that_is_renewed_outlives_its_ttl,
        }
        loss {
            renewing_a_deleted_slot_is_a_loss_reported_once needs Foreigners,
            renewing_a_stolen_slot_is_a_loss_reported_once needs ForeignTokens,
            an_expired_lease_is_lost_and_never_held_again,
            on_lost_of_a_lost_lease_runs_at_once,
            on_lost_never_runs_after_close,
            a_callback_may_close_and_drop_everything,
            a_panicking_callback_harms_nobody,
            the_end_of_a_session_is_a_loss_that_is_noticed needs Foreigners | Sessions,
        }
        waiting {
            waiters_enter_first_come_first_served,
            a_waiter_that_times_out_leaves_without_disturbing,
            a_waiter_that_is_interrupted_leaves_without_disturbing,
            a_timeout_ends_the_wait,
            a_deadline_ends_the_wait,
            a_past_deadline_makes_one_attempt,
            a_zero_timeout_makes_one_attempt,
            a_huge_timeout_waits_and_does_not_panic,
            enter_now_takes_a_free_slot_and_does_not_wait_for_a_held_one,
            a_waiter_enters_once_another_guard_closes,
            turns_inside_the_process_cost_no_interval,
        }
        handing_over {
            a_closed_slot_is_handed_to_the_next_thread,
            a_row_ends_after_so_many_hand_overs,
            a_row_ends_after_its_time,
            without_hand_over_every_thread_takes_the_slot_itself,
            a_lease_that_was_handed_over_has_its_own_token_and_time,
            the_order_stays_over_hand_overs_and_releases,
            a_busy_process_lets_others_have_their_turn needs Wakeups,
            an_interrupted_receiver_passes_the_slot_on,
            a_receiver_that_is_out_of_time_passes_the_slot_on,
            a_panicking_receiver_passes_the_slot_on,
            closing_the_guard_during_a_hand_over_loses_no_slot,
        }
        wakeups {
            a_close_of_another_guard_wakes_a_waiter needs Wakeups,
            every_guard_that_waits_gets_its_turn needs Wakeups,
            a_foreign_delete_wakes_a_waiter needs Foreigners | Wakeups,
            the_expiry_of_a_foreign_holder_ends_the_wait needs ForeignTokens,
            a_waiter_sees_through_a_change_of_holders needs ForeignTokens | Wakeups,
            a_deleted_lease_of_the_same_guard_wakes_the_next_one needs Foreigners | Wakeups,
            who_moves_to_the_front_is_woken_too needs Foreigners | Wakeups,
        }
        interrupts {
            a_pending_interrupt_is_taken_before_a_free_slot_is_touched,
            enter_now_takes_a_pending_interrupt_too,
            an_interrupt_ends_a_wait_in_front,
            an_interrupt_ends_a_wait_in_the_queue,
            a_threads_own_interrupt_ends_its_wait,
            one_interrupt_ends_every_wait_that_observes_it,
            an_interrupt_after_the_grant_stays_pending,
            an_interrupt_is_reported_once,
            with_both_pending_the_passed_handle_is_reported,
            an_interrupt_ends_a_wait_promptly,
        }
        closing {
            closing_the_guard_wakes_all_waiters,
            a_closed_guard_takes_no_entries,
            leases_in_hand_stay_good_when_the_guard_closes,
            closing_one_guard_leaves_the_others_open,
        }
        holder {
            a_free_slot_has_no_holder,
            a_holder_shows_its_owner_and_never_its_token,
            a_holder_shows_its_token_in_short_and_its_time_left needs ForeignTokens,
            a_guard_shows_the_time_left_of_its_own_lease,
            a_foreign_holder_is_shown needs Foreigners,
            a_foreign_holder_may_have_no_ttl needs ForeignTokens,
            a_holder_can_be_ended_by_force,
            a_lease_that_its_own_guard_ends_is_lost_at_once,
            a_lease_that_was_handed_over_and_is_ended_is_lost_at_once,
        }
        foreign {
            a_foreign_holder_keeps_us_out_until_its_ttl needs ForeignTokens,
            a_foreign_holder_without_ttl_keeps_us_out_until_it_deletes needs Foreigners,
            a_foreign_delete_lets_the_next_one_in needs Foreigners,
            foreign_data_is_a_permanent_error_and_stays needs ForeignTokens,
            closing_over_foreign_data_leaves_it_there needs ForeignTokens,
        }
        keys {
            prefixes_keep_guards_apart_and_equal_ones_share,
            a_java_service_with_the_one_line_store_is_met_under_its_prefix needs ForeignTokens,
            slot_names_are_those_of_the_vectors,
            keys_resolve_as_the_vectors_say,
            illegal_keys_are_refused,
            bad_settings_are_refused_by_name,
            the_longest_ttl_can_be_held,
            the_store_keeps_the_longest_ttl needs Expiry,
        }
        contract {
            acquire_repeated_for_a_token_grants_again,
            acquire_answers_held_and_changes_nothing,
            a_token_without_a_ttl_is_held needs ForeignTokens,
            renew_is_for_its_own_token_only,
            renew_many_answers_in_order,
            release_is_for_the_own_token_only_and_final,
            hand_over_swaps_once_however_often_it_is_asked,
            hand_over_from_a_token_that_does_not_hold_changes_nothing,
            every_grant_has_a_fresh_ttl needs Expiry,
            a_lease_keeps_its_ttl_when_others_ask needs Expiry,
            the_store_enforces_the_ttl needs Expiry,
            fencing_tokens_grow_over_release_and_hand_over needs Fencing,
            fencing_tokens_grow_over_expiry needs Fencing,
            operations_on_foreign_data_change_nothing needs ForeignTokens,
        }
        faults {
            an_entry_that_is_executed_late_takes_nothing_after_its_release needs Network,
            a_release_whose_connection_is_cut_anywhere_is_final needs Network,
            a_call_that_is_never_answered_ends_with_its_budget needs Network,
        }
        lifecycle {
            nothing_is_left_in_the_store,
            leases_outlive_their_guard,
            no_thread_outlives_the_last_guard_and_lease,
        }
        processes {
            another_process_excludes_us_until_it_closes needs Sharing,
            a_killed_process_frees_its_slot_at_its_ttl needs Sharing | Expiry,
            a_killed_process_frees_its_slot_at_once needs Sharing | Sessions,
            no_update_is_lost_between_processes needs Sharing,
        }
    }
}

/// Runs the suite on a store as the command line asks; the `main` of a test target without a harness.
///
/// The backend is dropped before this returns, so a server that it started is gone before the process is.
pub fn run(backend: impl Backend) -> ExitCode {
    run_on("", Box::new(backend), &arguments()).exit_code()
}

/// Makes what the suite runs on; such as a server of its own.
pub type Start = fn() -> Box<dyn Backend>;

/// Runs the suite on one store after the other, as the command line asks. The cases' names begin with the store's. A
/// backend is there for its own cases only; one that is asked for none is not started.
pub fn run_each(stores: &[(&str, Start)]) -> ExitCode {
    let arguments = arguments();
    let mut failed = None;
    for (name, start) in stores {
        let prefix = format!("{name}::");
        let asked_for = |case: Case| {
            let trial = Trial::test(case.name_after(&prefix), || Ok(()));
            (!arguments.is_filtered_out(&trial)).then_some(trial)
        };
        let trials: Vec<_> = all().into_iter().filter_map(asked_for).collect();
        if trials.is_empty() {
            continue;
        }
        let conclusion = if arguments.list {
            libtest_mimic::run(&arguments, trials)
        } else {
            run_on(&prefix, start(), &arguments)
        };
        if conclusion.has_failed() {
            failed = Some(conclusion);
        }
    }
    failed.map_or(ExitCode::SUCCESS, |conclusion| conclusion.exit_code())
}

fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(DEFAULT_TEST_THREADS);
    arguments
}

fn run_on(prefix: &str, backend: Box<dyn Backend>, arguments: &Arguments) -> Conclusion {
    let backend: Arc<dyn Backend> = Arc::from(backend);
    let trial = |case: Case| case.trial(prefix, &backend);
    libtest_mimic::run(arguments, all().into_iter().map(trial).collect())
}

impl Case {
    fn name_after(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name)
    }

    fn trial(self, prefix: &str, backend: &Arc<dyn Backend>) -> Trial {
        let capabilities = backend.capabilities();
        let name = self.name_after(prefix);
        if let Some(reason) = self
            .needs
            .iter()
            .find_map(|need| need.missing(&**backend, &capabilities))
        {
            let reason = format!("not for the {} store: {reason}", backend.name());
            let kind = reason.clone();
            // Ignored when it is asked for, too: it must never read as passed.
            let skip = move || Ok(Completion::ignored_with(&reason));
            return Trial::ignorable_test(name, skip)
                .with_ignored_flag(true)
                .with_kind(kind);
        }
        if let Some(to_do) = self.needs.iter().find_map(|need| need.to_do(&**backend)) {
            let to_do = format!("the {} store says that {to_do}", backend.name());
            return Trial::test(name, move || Err(to_do.into()));
        }
        let backend = Arc::clone(backend);
        Trial::test(name.clone(), move || {
            // A thread of its own: an interrupt that a failed case left behind must not reach the next.
            let case = || (self.run)(&*backend);
            let thread = thread::Builder::new().name(name.clone());
            match thread::scope(|scope| {
                thread.spawn_scoped(scope, case).map(ScopedJoinHandle::join)
            }) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(error) => Err(format!("no thread for the case: {error}").into()),
            }
        })
    }
}
