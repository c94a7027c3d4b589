//! The conformance suite: a backend is a store if it passes these cases.
//!
//! A case is a plain function over a new store with at least eight shards. A backend passes its name and a function
//! that opens such a store, and gets one test for each case. The cases of `sessions` are for any session store:
//!
//! ```ignore
//! async fn open() -> (Memory, ()) { (Memory::new(8), ()) } // and what must outlive the store
//! punctual_store::conformance!(memory, open);
//! punctual_store::sessions_conformance!(memory_sessions, open);
//! ```

pub mod given;
pub mod servers;

pub mod fence;
pub mod acquire;
pub mod leases;
pub mod sessions;
pub mod rows;
pub mod load;
pub mod timers;
pub mod keys;
pub mod runs;
pub mod listing;
pub mod calendars;
pub mod descriptors;
pub mod admin;
pub mod mail;
pub mod messages;
pub mod queues;
pub mod logs;
pub mod prune;
pub mod statistics;
pub mod search;
pub mod steps;
pub mod locks;
pub mod children;

/// Makes one named test for each case.
#[macro_export]
macro_rules! conformance {
    ($backend:ident, $open:path) => {
        mod $backend {
            use super::*;

            $crate::conformance_tests! {
                $open;
                fence:
                    an_outdated_epoch_cannot_commit
                    an_epoch_taken_between_check_and_commit_wins
                    a_lost_commit_that_lands_later_is_seen_after_acquire
                    a_commit_sent_twice_is_fenced_the_second_time
                    a_commit_out_of_turn_is_fenced
                    one_refused_batch_leaves_nothing_of_the_others
                    one_fenced_batch_leaves_nothing_of_the_others
                    shards_do_not_fence_each_other
                    two_batches_of_a_shard_follow_each_other
                    an_empty_batch_is_a_commit
                    a_shard_beyond_the_last_cannot_be_led
                    a_row_of_another_shard_is_refused;
                acquire:
                    every_acquisition_makes_a_larger_epoch
                    several_shards_are_acquired_at_once
                    an_acquisition_that_fails_outdates_nobody
                    only_the_newest_epoch_loads
                    the_last_id_outlives_its_leader
                    commit_numbers_go_on_through_epochs;
                leases:
                    a_lease_names_its_owner
                    of_two_who_claim_one_epoch_the_first_has_it
                    a_released_shard_names_its_heir
                    an_outdated_release_changes_nothing
                    the_epoch_fences_and_the_lease_does_not
                    the_clock_of_the_store_goes_on;
                rows:
                    an_insert_of_a_row_that_is_there_is_refused
                    an_update_of_a_row_that_is_not_there_is_refused
                    a_delete_of_a_row_that_is_not_there_is_refused
                    every_kind_of_row_comes_changes_and_goes
                    rows_read_back_as_they_were_written
                    a_cursor_never_goes_back
                    two_jobs_cannot_bear_one_name
                    a_deleted_job_frees_its_name
                    an_edit_replaces_the_definition
                    a_pause_keeps_its_reason_and_its_end
                    a_check_of_a_job_is_its_timer
                    a_fire_moves_the_cursor
                    a_large_run_reads_back_whole
                    a_listing_carries_the_end_of_a_long_result
                    no_text_is_read_as_a_command;
                load:
                    held_and_backing_off_runs_are_loaded_and_waiting_ones_are_not
                    a_run_is_live_from_its_due_time_to_its_end
                    a_load_has_only_the_runs_of_its_shard
                    a_run_keeps_the_revision_it_was_made_under
                    a_run_of_a_deleted_job_keeps_its_definition
                    a_new_shard_loads_empty;
                timers:
                    timers_of_jobs_and_runs_come_in_one_order
                    pages_of_timers_are_complete_under_ties
                    a_page_begins_after_any_place
                    a_moved_timer_is_listed_once
                    what_waits_for_no_instant_has_no_timer
                    timers_of_other_shards_are_not_listed
                    a_timer_is_listed_however_far_off
                    a_waiting_run_comes_with_its_job_and_definition;
                keys:
                    what_is_not_found_is_not_in_the_answer
                    a_run_is_found_wherever_it_is
                    a_dead_letter_is_marked_until_it_is_discarded
                    a_key_expires_by_itself_and_survives_the_pruning_of_its_run
                    an_expired_key_can_be_taken_over
                    the_longest_key_is_kept_whole
                    the_same_key_in_two_shards_is_two_keys
                    the_keys_of_rates_are_loaded_with_their_shard;
                runs:
                    runs_are_listed_newest_first
                    runs_are_listed_oldest_first_on_request
                    pages_of_runs_are_stable_while_runs_come_and_end
                    runs_are_listed_by_time
                    runs_are_listed_by_job
                    runs_are_listed_by_several_jobs
                    the_last_runs_of_many_jobs_are_read_at_once
                    runs_are_counted_by_status
                    runs_are_listed_by_status
                    runs_are_listed_by_trigger
                    runs_are_listed_by_key
                    a_run_of_another_namespace_is_not_there
                    a_rare_run_is_found_among_many;
                listing:
                    jobs_are_listed_by_namespace_and_name
                    a_commit_is_seen_in_the_numbers_of_its_shard
                    namespaces_are_listed_with_their_counts
                    dead_letters_are_listed_oldest_first
                    incidents_are_listed_newest_first
                    dead_letters_are_listed_by_job_and_time
                    revisions_are_listed_newest_first
                    skips_are_listed_newest_first
                    deleted_jobs_are_listed_by_name
                    jobs_of_older_zone_data_are_found
                    stats_count_jobs_and_runs;
                calendars:
                    a_calendar_reads_back_as_it_was_put
                    an_edit_of_an_outdated_version_is_refused
                    no_version_of_a_calendar_comes_twice
                    calendars_are_listed_by_namespace_and_name
                    the_jobs_that_keep_to_a_calendar_are_found;
                descriptors:
                    a_descriptor_reads_back_as_it_was_put
                    a_change_of_an_outdated_descriptor_is_refused
                    descriptors_are_listed_by_name;
                admin:
                    the_first_offer_is_agreed_on
                    those_who_offer_at_once_agree
                    tokens_read_back_as_they_were_added
                    a_token_has_its_name_for_itself;
                mail:
                    mail_is_given_until_it_was_taken
                    mail_that_is_sent_twice_is_there_once
                    mail_comes_in_order_and_by_pages
                    mail_that_nobody_takes_goes_with_time;
                messages:
                    messages_read_back_as_they_were_written
                    an_end_notice_is_a_timer_and_in_no_queue
                    an_updated_message_reads_back_as_it_is_now
                    any_bytes_are_a_body
                    a_large_message_reads_back_whole
                    a_heavy_page_ends_early_and_loses_nothing
                    a_backlog_goes_by_priority_and_then_by_age
                    queues_do_not_share_messages
                    a_backlog_leaves_out_active_messages
                    pages_of_a_backlog_neither_skip_nor_repeat
                    messages_are_timers_among_jobs_and_runs
                    a_message_that_is_put_off_moves_among_the_timers
                    a_message_is_found_whatever_its_priority
                    a_message_comes_once_and_goes_once
                    an_outdated_leader_writes_no_message
                    messages_are_listed_in_the_order_of_their_places
                    queued_messages_are_listed_from_both_ends
                    a_thousand_messages_come_and_go_in_a_batch;
                queues:
                    a_load_brings_every_queue_with_its_counts
                    queues_may_exchange_their_numbers
                    any_text_is_the_name_of_a_queue
                    queues_are_listed_by_namespace_and_name;
                logs:
                    logs_read_back_in_order
                    a_doubled_chunk_changes_nothing
                    logs_are_read_on_from_any_place
                    runs_have_their_own_logs
                    any_bytes_are_output
                    the_output_of_a_run_is_counted_without_remarks;
                prune:
                    a_job_keeps_its_newest_runs
                    a_job_keeps_its_last_days
                    a_run_is_as_old_as_its_end
                    ad_hoc_history_goes_by_the_policy
                    history_of_a_deleted_job_goes_by_the_policy
                    prune_never_takes_a_dead_letter
                    prune_never_takes_a_live_run
                    prune_takes_no_more_than_its_limit_and_comes_to_an_end
                    output_goes_after_its_run
                    old_skip_records_go
                    a_deleted_job_is_known_as_long_as_its_skip_records
                    revisions_go_after_the_last_run_of_a_deleted_job;
                statistics:
                    statistics_read_back_as_they_were_written
                    rows_of_a_bucket_are_added_up
                    statistics_are_read_by_job_and_namespace
                    statistics_are_read_by_time
                    an_update_replaces_the_counts
                    recent_counts_are_loaded_in_order_with_their_shard
                    recent_counts_are_added_to_their_buckets
                    statistics_of_another_shard_are_refused
                    old_statistics_go;
                search:
                    runs_are_found_by_the_beginning_of_a_term
                    every_word_of_a_search_must_match
                    a_search_goes_with_the_other_filters
                    a_search_is_of_one_namespace
                    pages_of_found_runs_neither_skip_nor_repeat
                    a_run_is_found_while_it_lives_and_after_its_end
                    a_frequent_term_finds_the_newest_runs_first
                    the_terms_of_a_run_go_with_it;
                steps:
                    steps_read_back_as_they_were_written
                    a_load_brings_the_steps_of_running_workflows
                    a_load_brings_what_a_retry_reuses
                    a_fetch_brings_steps_without_their_items
                    steps_are_listed_in_order_and_by_pages
                    a_run_of_a_step_comes_with_the_definition_of_the_step
                    steps_go_with_their_run
                    approvals_are_listed_by_namespace_and_by_pages;
                locks:
                    a_load_brings_the_locks_of_its_shard
                    a_lock_that_is_passed_on_has_one_row
                    locks_are_listed_by_name_and_by_pages;
                children:
                    child_runs_are_listed_only_if_they_are_asked_for
                    the_last_runs_of_a_job_are_no_children
                    a_child_is_found_by_its_id
                    a_job_keeps_whole_workflows
                    many_children_go_with_their_parent
                    runs_are_found_by_their_due_time;
            }
        }
    };
}

/// Makes one named test for each case of a session store.
#[macro_export]
macro_rules! sessions_conformance {
    ($backend:ident, $open:path) => {
        mod $backend {
            use super::*;

            $crate::conformance_tests! {
                $open;
                sessions:
                    those_who_renew_see_each_other
                    a_renewal_says_what_is_so_now
                    a_session_that_is_not_renewed_ends
                    a_session_that_is_renewed_gets_older
                    a_session_ends_when_its_node_leaves;
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($open:path; $($group:ident: $($case:ident)*;)*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                let (store, _kept) = $open().await;
                $crate::conformance::$group::$case(&store).await.unwrap();
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    use crate::memory::Memory;

    async fn open() -> (Memory, ()) {
        (Memory::new(8), ())
    }

    crate::conformance!(memory, open);
    crate::sessions_conformance!(memory_sessions, open);

    #[test]
    fn every_case_is_listed() {
        let files = [
            include_str!("fence.rs"),
            include_str!("acquire.rs"),
            include_str!("leases.rs"),
            include_str!("rows.rs"),
            include_str!("load.rs"),
            include_str!("timers.rs"),
            include_str!("keys.rs"),
            include_str!("runs.rs"),
            include_str!("listing.rs"),
            include_str!("calendars.rs"),
            include_str!("descriptors.rs"),
            include_str!("admin.rs"),
            include_str!("mail.rs"),
            include_str!("messages.rs"),
            include_str!("queues.rs"),
            include_str!("logs.rs"),
            include_str!("prune.rs"),
            include_str!("statistics.rs"),
            include_str!("search.rs"),
            include_str!("steps.rs"),
            include_str!("locks.rs"),
            include_str!("children.rs"),
            include_str!("sessions.rs"),
        ];
        let written = files.iter().flat_map(|file| file.split("\npub async fn ").skip(1));
        let written: Vec<&str> = written.filter_map(|text| text.split('(').next()).collect();
        let lines = include_str!("mod.rs").lines().map(|line| line.trim().trim_end_matches(';'));
        let listed: Vec<&str> = lines.filter(|line| written.contains(line)).collect();
        assert_eq!(written, listed);
    }
}
