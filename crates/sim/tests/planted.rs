//! Plants one fault at a time in the code under test: the simulator must find it, and name the broken promise.

use punctual_sim::{Fault, Settings, run};

/// The number of worlds that are tried. Half of all worlds have queues.
const SEEDS: u64 = 60;

/// A fault may break several promises; in one of the worlds it breaks the expected one first.
fn check(fault: Fault, expected: &str) {
    let settings = Settings { planted: Some(fault), ..Settings::default() };
    let mut others = Vec::new();
    for found in (1..=SEEDS).filter_map(|seed| run(seed, settings).err()) {
        if found.what.contains(expected) {
            println!("{fault:?}: found in seed {}: {}", found.seed, found.what);
            return;
        }
        others.push(format!("seed {}: {}", found.seed, found.what));
    }
    panic!("{fault:?} broke `{expected}` in none of {SEEDS} worlds: {others:#?}");
}

#[test]
fn a_checkpoint_that_is_confirmed_early_is_found() {
    check(Fault::CheckpointIsConfirmedEarly, "checkpoint");
}

#[test]
fn a_loss_that_forgets_the_checkpoint_is_found() {
    check(Fault::LossForgetsCheckpoint, "checkpoint");
}

#[test]
fn a_late_report_that_replaces_a_newer_checkpoint_is_found() {
    check(Fault::LateReportIsTaken, "checkpoint");
}

#[test]
fn an_end_that_is_not_notified_is_found() {
    check(Fault::EndIsNotNotified, "is told as");
}

#[test]
fn an_incident_that_a_load_forgets_is_found() {
    check(Fault::IncidentsAreForgotten, "incidents: ");
}

#[test]
fn a_success_that_ends_no_incident_is_found() {
    check(Fault::SuccessEndsNothing, "has succeeded, and one is open");
}

#[test]
fn a_failure_that_is_notified_again_is_found() {
    check(Fault::FailureIsNotifiedAgain, "is told as");
}

#[test]
fn a_move_that_uses_up_an_attempt_is_found() {
    check(Fault::MoveUsesAttempt, "move: ");
}

#[test]
fn a_moved_run_that_starts_beside_its_old_attempt_is_found() {
    check(Fault::MoveDoesNotWait, "two at once");
}

#[test]
fn a_yield_that_counts_as_a_loss_is_found() {
    check(Fault::YieldIsALoss, "yield: ");
}

#[test]
fn a_limit_that_is_forgotten_is_found() {
    check(Fault::LimitForgotten, "limit: ");
}

#[test]
fn a_hold_that_a_load_forgets_is_found() {
    check(Fault::HoldIsNotLoaded, "hold: run");
}

#[test]
fn a_ready_run_that_starts_under_a_hold_is_found() {
    check(Fault::HoldLeavesReadyRuns, "hold: run");
}

#[test]
fn a_retry_that_starts_under_a_hold_is_found() {
    check(Fault::RetryIgnoresHold, "hold: run");
}

#[test]
fn a_due_time_under_a_hold_without_a_record_is_found() {
    check(Fault::HeldFireIsNotRecorded, "never lost");
}

#[test]
fn due_times_that_nothing_makes_up_for_are_found() {
    check(Fault::KeptFireIsLost, "hold: nothing makes up");
}

#[test]
fn a_rate_that_is_forgotten_is_found() {
    check(Fault::RateForgotten, "rate: ");
}

#[test]
fn a_place_that_is_not_returned_is_found() {
    check(Fault::PlaceIsNotReturned, "never lost: run");
}

#[test]
fn an_add_that_ignores_its_delay_is_found() {
    check(Fault::AddIgnoresDelay, "never early");
}

#[test]
fn an_add_that_ignores_its_key_is_found() {
    check(Fault::AddIgnoresKey, "key");
}

#[test]
fn an_add_that_wakes_no_consumer_is_found() {
    check(Fault::AddForgetsWaiters, "a consumer");
}

#[test]
fn a_take_of_an_expired_message_is_found() {
    check(Fault::TakeIgnoresExpiry, "never after expiry");
}

#[test]
fn a_take_without_retry_that_is_written_late_is_found() {
    check(Fault::TakeOnceIsWrittenLate, "at most once");
}

#[test]
fn a_take_without_retry_that_is_retried_is_found() {
    check(Fault::TakeOnceIsRetried, "at most once");
}

#[test]
fn a_retry_that_is_forgotten_is_found() {
    check(Fault::RetryIsForgotten, "is left");
}

#[test]
fn an_ack_that_keeps_its_message_is_found() {
    check(Fault::AckKeepsMessage, "but still exists");
}

#[test]
fn a_nack_that_ignores_its_delay_is_found() {
    check(Fault::NackIgnoresDelay, "never early");
}

#[test]
fn a_long_queue_of_which_only_one_page_is_read_is_found() {
    check(Fault::PageIsTheLast, "queue-0");
}

#[test]
fn a_command_that_is_dated_back_is_found() {
    check(Fault::TimeIsNotAwaited, "dated back");
}

#[test]
fn a_worker_that_starts_an_attempt_again_is_found() {
    check(Fault::AttemptStartsAgain, "started twice");
}

#[test]
fn a_worker_that_forgets_an_outcome_is_found() {
    check(Fault::OutcomeIsForgotten, "started twice");
}

#[test]
fn a_worker_that_goes_on_after_its_lease_is_found() {
    check(Fault::LeaseIsIgnored, "lease");
}

#[test]
fn an_offer_that_uses_a_credit_is_found() {
    check(Fault::OfferUsesCredit, "credits");
}

#[test]
fn an_end_that_is_counted_a_batch_late_is_found() {
    check(Fault::EndIsCountedLate, "statistics");
}

#[test]
fn an_error_that_is_not_indexed_is_found() {
    check(Fault::ErrorIsNotIndexed, "search");
}

#[test]
fn a_step_that_starts_before_what_it_needs_is_found() {
    check(Fault::StepIgnoresNeeds, "which it needs, had ended");
}

#[test]
fn a_step_that_is_started_again_after_a_load_is_found() {
    check(Fault::StepIsStartedAgain, "steps: ");
}

#[test]
fn a_step_whose_end_is_not_written_is_found() {
    check(Fault::StepEndIsNotWritten, "and its step is");
}

#[test]
fn a_fan_out_that_a_load_forgets_is_found() {
    check(Fault::FanOutIsForgotten, "items");
}

#[test]
fn a_map_that_ignores_parallel_is_found() {
    check(Fault::ParallelIsIgnored, "items at once");
}

#[test]
fn a_workflow_that_hides_a_failure_is_found() {
    check(Fault::WorkflowHidesFailure, "steps: workflow");
}

#[test]
fn an_end_without_a_notice_to_the_waiting_step_is_found() {
    check(Fault::CallerIsNotTold, "is not told of its end");
}

#[test]
fn a_batch_that_forgets_an_event_is_found() {
    check(Fault::BatchForgetsEvent, "was recorded to have");
}

#[test]
fn an_event_that_does_not_wake_a_step_is_found() {
    check(Fault::StepIsNotWoken, "is not told of");
}

#[test]
fn an_event_that_wakes_a_step_for_another_key_is_found() {
    check(Fault::EventKeyIsIgnored, "waits for the key");
}

#[test]
fn a_split_step_that_ends_with_its_first_part_is_found() {
    check(Fault::SplitStepEndsEarly, "ended before all of its items");
}

#[test]
fn a_step_that_starts_against_its_switch_is_found() {
    check(Fault::SwitchIsIgnored, "was not chosen by the switch");
}

#[test]
fn a_step_that_goes_on_listening_is_found() {
    check(Fault::StepGoesOnListening, "for ever");
}

#[test]
fn an_end_without_a_notice_to_its_followers_is_found() {
    check(Fault::FollowerIsNotTold, "is not told that run");
}

#[test]
fn a_notice_that_starts_a_job_twice_is_found() {
    check(Fault::StartIsNotRemembered, "one key, one run");
}

#[test]
fn a_call_that_starts_a_job_twice_is_found() {
    check(Fault::CallIsNotRemembered, "has started the runs");
}

#[test]
fn a_stopped_workflow_without_finally_is_found() {
    check(Fault::FinallyIsSkipped, "belongs to `finally`");
}

#[test]
fn a_step_that_starts_against_its_rule_is_found() {
    check(Fault::RuleIsIgnored, "has the rule");
}

#[test]
fn a_step_that_starts_in_a_paused_workflow_is_found() {
    check(Fault::PauseIsIgnored, "was decided while its workflow, or one around it, was paused");
}

#[test]
fn a_retry_that_executes_a_reused_step_is_found() {
    check(Fault::ReusedStepIsExecuted, "steps: retry");
}

#[test]
fn a_retry_that_reuses_what_needs_an_executed_step_is_found() {
    check(Fault::RetryIgnoresNeeds, "steps: retry");
}

#[test]
fn a_retry_that_reuses_a_failure_is_found() {
    check(Fault::RetryReusesFailure, "steps: retry");
}

#[test]
fn a_lock_with_two_holders_is_found() {
    check(Fault::LockIgnoresHolder, "lock: ");
}

#[test]
fn a_lock_that_ends_at_a_takeover_is_found() {
    check(Fault::LockEndsAtTakeover, "lock: ");
}

#[test]
fn a_lock_that_is_given_away_in_spite_of_a_renewal_is_found() {
    check(Fault::RenewalIsForgotten, "early");
}

#[test]
fn a_free_lock_that_nobody_gets_is_found() {
    check(Fault::LockForgetsWaiter, "which is free since");
}

#[test]
fn a_worker_that_lends_while_it_drains_is_found() {
    check(Fault::DrainLends, "drain");
}

#[test]
fn a_limit_of_a_queue_that_is_ignored_is_found() {
    check(Fault::RunningIsIgnored, "running: ");
}

#[test]
fn unacknowledged_messages_that_a_load_forgets_are_found() {
    check(Fault::UnackedIsForgotten, "running: ");
}

#[test]
fn a_message_that_is_lost_on_its_way_to_the_dead_letter_queue_is_found() {
    check(Fault::DeadMessageIsLost, "never lost: message");
}

#[test]
fn a_message_that_is_moved_and_stays_is_found() {
    check(Fault::DeadMessageStays, "one queue: ");
}

#[test]
fn a_message_that_is_added_twice_to_the_dead_letter_queue_is_found() {
    check(Fault::DeadMessageIsAddedAgain, "one add, one message");
}
