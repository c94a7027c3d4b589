//! Faults that are planted one at a time: the simulator must find each of them, and say what it
//! means.

use punctual_sim::{Fault, Settings, run};

/// So many worlds are tried. Half of all worlds have queues.
const SEEDS: u64 = 60;

fn check(fault: Fault, expected: &str) {
    let settings = Settings { planted: Some(fault), ..Settings::default() };
    let found = (1..=SEEDS).find_map(|seed| run(seed, settings).err());
    let found = found.unwrap_or_else(|| panic!("{fault:?} was not found in {SEEDS} worlds"));
    println!("{fault:?}: found in seed {}: {}", found.seed, found.what);
    assert!(found.what.contains(expected), "seed {}: {}", found.seed, found.what);
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
fn an_add_that_forgets_who_waits_is_found() {
    check(Fault::AddForgetsWaiters, "a consumer");
}

#[test]
fn a_take_of_what_has_expired_is_found() {
    check(Fault::TakeIgnoresExpiry, "never after its life");
}

#[test]
fn a_take_without_retry_that_is_written_late_is_found() {
    check(Fault::TakeOnceIsWrittenLate, "once at most");
}

#[test]
fn a_take_without_retry_that_is_retried_is_found() {
    check(Fault::TakeOnceIsRetried, "once at most");
}

#[test]
fn a_retry_that_is_forgotten_is_found() {
    check(Fault::RetryIsForgotten, "is left");
}

#[test]
fn an_ack_that_keeps_its_message_is_found() {
    check(Fault::AckKeepsMessage, "is still there");
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
    check(Fault::AttemptStartsAgain, "starts again");
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
fn a_worker_that_lends_while_it_drains_is_found() {
    check(Fault::DrainLends, "drain");
}
