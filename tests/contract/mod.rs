//! The contract: what every lock promises, on every backend. `every` runs for all kinds; `reentry` for those that the
//! same owner may enter again; `verbs` has what the hash kinds add; `client` what belongs to no lock.

mod client;
mod ends;
mod every;
mod everywhere;
mod fair;
mod fair_dead;
mod fair_layout;
mod fenced;
mod freed;
mod grouped;
mod guards;
mod hash;
mod latch;
mod limits;
mod multi_lock;
mod permit_semaphore;
mod plain;
mod read_write;
mod read_write_waits;
mod readers;
mod red_lock;
mod reentry;
mod semaphore;
mod spin;
mod verbs;
mod world;

use multi_lock::make as multi_members;
use red_lock::make as red_of_one;
use support::prelude::*;
use support::{By, Topology};
use world::{group_value, read, spin_lock, write, write_in_transaction, Case, Kind};

/// What `Locks` makes besides.
const SYNCHRONIZERS: [&str; 3] = ["semaphore", "permit_semaphore", "latch"];

macro_rules! cases {
    ($kind:expr, $module:ident: $($case:ident),* $(,)?) => {
        mod $module {
            mod real {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::contract::$module::$case(crate::contract::Case::real($kind)).await;
                })*
            }
            mod embedded {
                $(#[tokio::test(start_paused = true)]
                async fn $case() {
                    crate::contract::$module::$case(crate::contract::Case::embedded($kind)).await;
                })*
            }

            pub const CASES: crate::contract::everywhere::Cases = &[$((
                concat!(stringify!($module), "::", stringify!($case)),
                |case| Box::pin(crate::contract::$module::$case(case)),
            )),*];
        }
    };
}

/// These cases of a kind on many servers, and on others than that of `real`.
macro_rules! everywhere {
    ($name:expr, $kind:expr, $($cases:expr),+ $(,)?) => {
        mod everywhere {
            use super::*;
            use crate::contract::{everywhere, By, Topology};

            const GROUPS: &[&[everywhere::Cases]] = &[$($cases),+];

            fn run(topology: Topology) {
                everywhere::run($name, $kind, &GROUPS.concat(), topology);
            }

            #[test]
            fn on_a_single_server() {
                run(Topology::Single);
            }

            #[test]
            fn behind_sentinels() {
                run(Topology::Sentinel);
            }

            #[test]
            fn on_a_cluster() {
                run(Topology::Cluster);
            }

            #[test]
            fn by_a_client_of_fred() {
                everywhere::run_lent($name, $kind, &GROUPS.concat(), By::Fred);
            }

            #[test]
            fn by_a_connection_of_redis_rs() {
                everywhere::run_lent($name, $kind, &GROUPS.concat(), By::RedisRs);
            }

            #[test]
            fn by_lean_connections() {
                everywhere::run_lean($name, $kind, &GROUPS.concat());
            }
        }
    };
}

/// Groups of cases, as macros that run one for a kind: those of `every` are run for all of them.
macro_rules! groups {
    ($d:tt $($group:ident { $($module:ident: $($case:ident),+;)+ })+) => {
        $(macro_rules! $group {
            ($d kind:expr) => {
                mod $group {
                    $(cases!($d kind, $module: $($case),+);)+
                    pub const CASES: &[crate::contract::everywhere::Cases] = &[$($module::CASES),+];
                }
            };
        })+
    };
}

groups! { $
    every {
        every:
            try_lock_says_busy,
            unlock_by_another_changes_nothing,
            wait_limit_ends_as_busy,
            a_release_wakes_the_other_client,
            an_expired_lease_lets_the_next_in,
            a_fixed_lease_is_not_renewed,
            the_watchdog_renews_and_stops_at_unlock,
            max_hold_ends_renewal,
            a_dropped_wait_leaves_nothing,
            a_bad_name_is_the_first_verbs_error,
            a_bad_lease_or_wait_is_refused,
            a_key_of_another_type_is_refused,
            a_tampered_hold_is_refused,
            an_owner_is_read_at_the_first_poll,
            is_held_is_about_this_owner,
            a_key_without_ttl_is_asked_again;
        limits:
            what_looks_once_has_a_limit_of_its_own,
            an_unlock_has_the_limit_that_it_is_given,
            who_is_told_that_it_holds_does;
        guards:
            a_guard_releases_when_dropped,
            a_loop_that_drops_its_guards_lets_others_in,
            a_guard_moves_between_tasks,
            a_guard_of_a_lost_hold_leaves_the_next_alone,
            losing_it_is_told,
            run_returns_what_the_work_does_or_stops_it,
            a_lease_that_is_set_is_exact;
    }
    exclusive {
        every: one_owner_at_a_time, waiters_of_a_process_are_served_in_order;
        freed: a_deleted_lock_is_free_here, every_head_looks, a_message_has_a_holder_asked, a_giver_need_not_be_polled;
    }
    exclusive_reentry {
        reentry: scopes_part_joined_futures;
    }
    plain_hash {
        hash: the_layout_is_redissons, copies_apply_once_and_never_late;
    }
    owned {
        verbs: who_holds_it, force_unlock_frees_and_wakes, force_unlock_if_asks_who;
        freed: force_ends_the_hold_of_its_own_client, a_lost_bare_hold_is_said_to_new_handles;
    }
    reentry {
        reentry:
            entering_again_counts,
            joined_futures_share_an_owner,
            re_entry_passes_waiters_by,
            the_lease_only_grows,
            a_lost_outer_hold_is_said,
            limits_are_of_their_shares,
            the_hold_limit;
    }
    tokens {
        fenced:
            tokens_rise,
            who_comes_next_has_a_higher_token,
            a_token_rises_over_data_loss,
            a_token_is_exact_beyond_2_53,
            a_retry_has_a_higher_token,
            what_is_no_token_is_refused,
            who_finds_it_busy_leaves_the_token_alone,
            a_script_of_a_lost_hold_does_not_run;
    }
    tokens_reentry {
        fenced: a_re_entry_keeps_the_token, a_hold_without_a_token_gets_one;
    }
    once {
        verbs: it_is_not_entered_again;
    }
    clients {
        client:
            labels_never_make_two_clients_one,
            shutdown_gives_everything_back,
            shutdown_ends_waits,
            the_limit_of_names_is_the_builders,
            a_mapped_name_is_the_users_own,
            the_outage_limit_ends_calls,
            an_unlock_of_an_expired_hold_is_heard;
    }
    ends {
        ends: a_give_back_outlives_an_outage, shutdown_waits_for_copies_in_doubt;
    }
    ends_with_hand_over {
        ends: a_give_back_outlives_an_outage, shutdown_waits_for_copies_in_doubt, a_hand_over_to_nobody_goes_on;
    }
}

/// Each kind: what makes it, what its field has behind the owner, its groups besides `every`, and cases of its own.
macro_rules! kinds {
    ($($name:ident: $shape:ident($make:expr), $suffix:literal, [$($group:ident),*] {
        $($module:ident: $($case:ident),+;)*
    })*) => {
        pub const KINDS: &[&str] = &[$(stringify!($name)),*];

        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            pub const KIND: crate::contract::Kind = crate::contract::world::$shape!($make, $suffix);

            every!(crate::contract::$name::KIND);
            $($group!(crate::contract::$name::KIND);)*
            $(cases!(crate::contract::$name::KIND, $module: $($case),+);)*
            everywhere!(stringify!($name), KIND, every::CASES, $($group::CASES,)* &[$($module::CASES),*]);
        })*
    };
}

kinds! {
    lock: hash(Locks::lock), "",
        [exclusive, plain_hash, reentry, exclusive_reentry, owned, ends_with_hand_over, clients] {
        verbs: transactions_of_one_task_exclude_each_other;
        limits:
            questions_have_a_limit,
            permits_have_the_limit_that_they_are_given,
            an_unlock_that_is_not_awaited_gives_all_members_back;
        ends: give_backs_are_no_flood, permits_of_nobody_go_on;
        client:
            shutdown_gives_permits_back_and_ends_their_waits, shutdown_loses_no_permit,
            the_last_handle_closes_the_client,
            health_counts;
    }
    mutex: hash(Locks::mutex), "", [exclusive, plain_hash, owned, ends_with_hand_over, once] {}
    spin_lock: hash(spin_lock), "", [exclusive, plain_hash, reentry, exclusive_reentry, owned, ends] {
        spin:
            it_says_nothing,
            the_wait_limit_is_kept,
            it_excludes_the_other_kinds,
            an_exponential_back_off_grows;
    }
    fenced_lock: tokens(Locks::lock), "",
        [exclusive, plain_hash, reentry, exclusive_reentry, owned, tokens, tokens_reentry, ends_with_hand_over] {
        fenced:
            a_script_runs_while_the_lock_is_held,
            a_script_gets_no_key_of_another_slot,
            a_scripts_own_error_is_said,
            a_late_script_does_not_run;
    }
    read: hash(read), "", [reentry, owned, ends] {
        read_write:
            many_readers_or_one_writer, both_sides_nest, the_layout_of_readers_and_writers_is_redissons,
            late_and_repeated_copies_of_both_sides, an_upgrade_is_refused_at_once,
            a_dropped_guard_is_no_upgrade,
            a_reader_whose_lease_ended_stops_counting, a_reader_is_renewed_with_its_keys,
            an_inner_read_release_never_shortens_the_write_lease,
            mixed_leases_of_a_reader, who_reads_and_who_writes, force_unlock_is_for_its_side,
            transactions_read_what_they_write, another_kinds_lock_keeps_both_out;
        read_write_waits:
            both_sides_wait_in_one_task,
            a_downgrade_wakes_readers_at_once, a_write_hold_ends_before_a_longer_read_hold_in_it,
            a_write_hold_lives_on_beside_a_longer_read_hold_in_it,
            a_writer_passes_a_stream_of_readers, writers_of_processes_take_turns,
            very_many_dead_readers_keep_nobody_out, very_many_readers_are_listed_and_ended,
            a_writer_that_gives_up_lets_readers_in, a_write_release_wakes_no_herd;
        readers:
            readers_that_wait_together_come_in_together, readers_behind_a_downgrade,
            readers_behind_a_writer_that_goes_first, each_of_them_holds_as_if_it_came_alone,
            those_that_go_away_meanwhile_leave_nothing, one_that_does_not_look_stands_in_nobodys_way,
            one_that_does_not_ask_on_keeps_no_reader_out, an_owner_that_is_in_already_enters_once_more,
            a_writer_between_readers_parts_them, whom_one_script_lets_in, copies_of_an_admission;
    }
    write: hash(write), ":write", [exclusive, reentry, exclusive_reentry, owned, ends] {
    }
    fair_lock: hash(Locks::fair_lock), "", [exclusive, plain_hash, reentry, exclusive_reentry, owned, ends] {
        fair:
            the_queue_is_served_in_order, length_and_position, who_gives_up_leaves_the_queue,
            the_dead_cost_three_seconds_however_many_wait,
            a_foreign_head_that_ignores_its_turn_is_dropped,
            live_foreign_waiters_stay, one_attempt_does_not_queue, waiters_that_do_not_ask_are_refreshed,
            a_lost_queue_is_made_again, a_java_acquisition_prunes_nobody,
            lost_messages_cost_at_most_the_cap;
        fair_dead:
            a_dead_head_goes_however_seldom_one_looks, a_dead_foreign_head_goes_however_seldom_one_looks,
            a_head_that_came_again_is_looked_at_anew, a_head_without_a_score_is_dropped, the_dead_go_a_hundred_a_call,
            ten_thousand_dead_cost_one_attempt, a_clock_set_back_keeps_no_dead_head,
            an_unlock_of_nothing_keeps_no_dead_head, a_broken_queue_keeps_no_hold, the_scores_are_set_anew_in_parts,
            the_unseen_go_in_parts;
        fair_layout:
            scores_do_not_drift, the_layout_key_by_key, queue_keys_have_a_ttl,
            copies_of_an_enqueue_make_one_entry, a_settled_owner_is_not_in_the_queue;
        client: shutdown_ends_waits;
    }
    fair_mutex: hash(Locks::fair_mutex), "", [exclusive, plain_hash, owned, once] {}
    plain_lock: value(Locks::plain_lock), "", [exclusive, ends_with_hand_over, once, clients] {
        plain:
            the_layout_is_the_common_one, every_hold_has_a_token_of_its_own, a_hand_over_is_one_write,
            what_another_library_took_is_left_alone,
            a_hold_that_expired_and_went_to_another_is_not_held,
            questions_and_force,
            a_value_that_is_no_text,
            a_lock_of_another_kind_is_another_type,
            late_copies_write_nothing,
            copies_apply_once,
            a_renewal_renews_only_its_own;
    }
    group_lock: hash(group_value), "", [exclusive, reentry, exclusive_reentry, owned, ends] {
        grouped:
            the_layout_is_redissons, each_value_is_a_lock_of_its_own, a_release_wakes_who_waits_for_that_value,
            values_are_taken_and_given_back_by_one_script, nobody_goes_first_who_waits_for_another_value,
            who_is_dead_keeps_a_value_no_longer_than_its_lease, late_copies_write_nothing;
    }
    multi: value(multi_members), "", [exclusive] {
        multi_lock:
            all_members_or_none,
            the_order_is_everybodys,
            a_lock_that_is_given_twice_is_taken_once,
            multi_locks_nest,
            both_sides_of_one_read_write_lock,
            members_that_keep_each_other_out_are_refused,
            no_members,
            a_mutex_member_is_not_entered_again,
            one_wait_limit_for_all,
            a_lease_begins_when_all_are_held,
            an_outer_lease_is_not_shortened, limits_are_of_their_shares,
            one_lost_member_loses_the_guard,
            one_lost_member_keeps_nothing_else_locked,
            a_member_that_is_lost_while_others_are_waited_for,
            every_member_has_a_token_of_its_own;
    }
    red: value(red_of_one), "", [exclusive, reentry, exclusive_reentry] {
        red_lock:
            a_young_server_does_not_vote,
            leases_above_the_limit_are_refused,
            one_server_is_one_member,
            it_is_the_lock_of_its_server,
            a_member_of_a_multi_lock;
    }
    lock_in_transaction: hash(|locks: &Locks, name: &str| locks.lock(name).in_transaction("t1").unwrap()), ":t1",
        [exclusive, reentry, exclusive_reentry, owned] {}
    read_in_transaction: hash(|locks, name| read(locks, name).in_transaction("t1").unwrap()), ":t1",
        [reentry, owned] {}
    write_in_transaction: hash(write_in_transaction), ":write:t1", [exclusive, reentry, exclusive_reentry, owned] {}
    fenced_mutex: tokens(Locks::mutex), "", [exclusive, plain_hash, owned, tokens, once] {}
    fenced_spin: tokens(spin_lock), "",
        [exclusive, plain_hash, reentry, exclusive_reentry, owned, tokens, tokens_reentry] {}
    fenced_fair: tokens(Locks::fair_lock), "",
        [exclusive, plain_hash, reentry, exclusive_reentry, owned, tokens, tokens_reentry] {
    }
    fenced_fair_mutex: tokens(Locks::fair_mutex), "", [exclusive, plain_hash, owned, tokens, once] {}
    fenced_write: tokens(write), ":write",
        [exclusive, reentry, exclusive_reentry, owned, tokens, tokens_reentry] {
        fenced: readers_have_no_token_and_leave_it_alone;
    }
    fenced_write_in_transaction: tokens(write_in_transaction), ":write:t1",
        [exclusive, reentry, exclusive_reentry, owned, tokens, tokens_reentry] {}
}

/// What is no lock: the kind of the case is not used.
mod synchronizers {
    cases!(crate::contract::lock::KIND, semaphore:
        permits_are_counted,
        handles_come_and_go,
        a_guard_gives_back_when_dropped, a_semaphore_that_was_deleted_and_set_again,
        a_release_serves_as_many_as_fit,
        a_large_request_is_not_starved,
        a_wait_limit_ends_as_busy,
        a_dropped_wait_leaves_nothing, a_dropped_waiter_gives_back_what_another_got_it,
        bad_input_is_refused,
        copies_of_a_call_do_it_once,
        receipts_are_few_and_end,
    );
    cases!(crate::contract::lock::KIND, permit_semaphore:
        permits_have_ids,
        the_layout_of_permits_is_redissons,
        javas_permits_are_known,
        a_guard_is_renewed_and_gives_back,
        expired_permits_return, very_many_expired_permits_keep_nobody_waiting,
        leases_are_set_exactly,
        losing_permits_is_told,
        a_guard_without_all_of_its_permits_says_so,
        max_hold_ends_the_renewal_of_permits,
        takers_of_permits_stand_in_line,
        a_dropped_wait_for_permits_leaves_nothing,
        bad_input_about_permits_is_refused,
        copies_about_permits_do_it_once,
    );
    cases!(crate::contract::lock::KIND, latch:
        a_latch_counts_down,
        all_waiters_are_let_go,
        deletion_ends_waits,
        a_latch_that_vanishes_is_open, an_opening_by_java_and_a_new_latch,
        a_dropped_waiter_passes_on_its_part,
        bad_input_for_a_latch_is_refused,
        copies_count_once,
    );
    everywhere!(
        "synchronizers",
        crate::contract::lock::KIND,
        &[semaphore::CASES, permit_semaphore::CASES, latch::CASES]
    );
}

/// A factory that is added to `Locks` without a place in this suite fails here.
#[test]
fn every_factory_is_in_the_list() {
    let factories = support::files::factories();
    let sides = |name| if name == "read_write_lock" { vec!["read", "write"] } else { vec![name] };
    // Work under a plain lock: `once::` has it.
    let names = factories.iter().map(String::as_str).filter(|name| *name != "once_per");
    let made = names.flat_map(sides);
    let (synchronizers, made): (Vec<&str>, Vec<&str>) = made.partition(|name| SYNCHRONIZERS.contains(name));
    assert_eq!((&synchronizers[..], &made[..]), (&SYNCHRONIZERS[..], &KINDS[..made.len()]));
    assert_eq!(KINDS.len() - made.len(), 11, "locks that are made of other locks, and not by a factory");
}
