//! The life of a run: every arrow, and that no sequence of events breaks a promise.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::attempt::{End, Outcome};
use crate::ids::{Epoch, WorkerId};
use crate::job::Route;
use crate::limits::LOSSES_MAX;
use crate::retry::Retry;
use crate::task::{Accept, Http, Method, Task};
use crate::workflow::{State as StepState, StepKey, StepReason, StepRecord};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn definition(attempts: u32) -> Definition {
    let retry = Retry { attempts, ..Retry::default() };
    Definition { retry, ..Definition::of(Task::Noop) }
}

fn waiting() -> Run {
    Run::new(
        RunId(1),
        Namespace::default(),
        Origin::AdHoc(Arc::new(definition(1))),
        Trigger::Submit,
        at(5),
        at(0),
    )
}

fn worker() -> WorkerId {
    WorkerId(Arc::from("w"))
}

fn running(definition: &Definition) -> Run {
    let mut run = waiting();
    run.apply(Event::Due, definition, at(5)).unwrap();
    let token = run.token.next(Epoch(1));
    run.apply(Event::Assigned { worker: worker(), token }, definition, at(6)).unwrap();
    run
}

fn reported(run: &Run, end: End) -> Event {
    Event::Reported { token: run.token, outcome: Outcome { end, ..Outcome::succeeded(at(6)) } }
}

#[test]
fn a_failed_run_is_retried_until_its_attempts_are_used_up() {
    let definition = definition(2);
    let mut run = running(&definition);
    run.apply(reported(&run, End::Failed), &definition, at(10)).unwrap();
    assert_eq!(run.state, State::Waiting { wait: Wait::Backoff(at(10_010)) });
    run.apply(Event::Due, &definition, at(10_010)).unwrap();
    let token = run.token.next(Epoch(1));
    run.apply(Event::Assigned { worker: worker(), token }, &definition, at(10_011)).unwrap();
    run.apply(reported(&run, End::Failed), &definition, at(10_020)).unwrap();
    assert_eq!((run.status(), run.attempt), (Status::Failed, 2));
}

#[test]
fn a_result_under_an_outdated_token_is_refused() {
    let definition = definition(3);
    let mut run = running(&definition);
    let stale = reported(&run, End::Succeeded);
    run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
    assert!(run.apply(stale.clone(), &definition, at(21)).is_err());
    run.apply(Event::Due, &definition, at(21)).unwrap();
    let token = run.token.next(Epoch(1));
    run.apply(Event::Assigned { worker: worker(), token }, &definition, at(22)).unwrap();
    assert!(run.apply(stale, &definition, at(23)).is_err());
}

#[test]
fn a_cancelled_run_ends_when_its_worker_reports() {
    let definition = definition(5);
    let mut run = running(&definition);
    run.apply(Event::CancelAsked(Cause::User), &definition, at(7)).unwrap();
    assert_eq!((run.status(), run.cancelling()), (Status::Running, Some(Cause::User)));
    run.apply(reported(&run, End::Failed), &definition, at(8)).unwrap();
    assert_eq!(run.status(), Status::Cancelled);
}

/// Work that a service accepts and works on.
fn accepted_elsewhere() -> Definition {
    let accept = Some(Accept { poll: Duration::from_secs(5), all: None });
    let http = Http { method: Method::Post, accept, ..Http::get("http://example.com") };
    Definition { task: Task::Http(Box::new(http)), ..definition(3) }
}

/// The second attempt of such work.
fn running_again(definition: &Definition) -> Run {
    let mut run = running(definition);
    run.apply(Event::Lost { token: run.token }, definition, at(20)).unwrap();
    run.apply(Event::Due, definition, at(21)).unwrap();
    let token = run.token.next(Epoch(1));
    run.apply(Event::Assigned { worker: worker(), token }, definition, at(22)).unwrap();
    run
}

#[test]
fn a_cancel_between_attempts_waits_for_the_one_that_cancels_the_work() {
    let definition = accepted_elsewhere();
    for cause in [Cause::User, Cause::Replaced, Cause::JobDeleted] {
        let mut run = running(&definition);
        run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
        run.apply(Event::Due, &definition, at(21)).unwrap();
        run.apply(Event::CancelAsked(cause), &definition, at(22)).unwrap();
        assert_eq!((run.status(), run.cancelling()), (Status::Ready, Some(cause)));
        assert!(
            run.apply(Event::CancelAsked(Cause::JobDeleted), &definition, at(22)).is_err(),
            "it ends anyway"
        );
        let token = run.token.next(Epoch(1));
        run.apply(Event::Assigned { worker: worker(), token }, &definition, at(23)).unwrap();
        assert_eq!((run.status(), run.cancelling()), (Status::Running, Some(cause)));
        run.apply(reported(&run, End::Failed), &definition, at(24)).unwrap();
        assert_eq!((run.status(), run.reason.clone()), (Status::Cancelled, Some(Reason::Cancelled(cause))));
    }
}

#[test]
fn a_cancel_without_grace_does_not_wait_for_a_worker() {
    let definition = accepted_elsewhere();
    let mut run = running(&definition);
    run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
    run.apply(Event::CancelAsked(Cause::User), &definition, at(21)).unwrap();
    run.apply(Event::CancelAsked(Cause::UserNow), &definition, at(22)).unwrap();
    assert_eq!((run.status(), run.cancelling()), (Status::Cancelled, None));
}

/// The polls of an attempt may fail while the service works.
#[test]
fn a_failed_attempt_may_have_left_work() {
    let definition = accepted_elsewhere();
    let mut run = running(&definition);
    run.apply(reported(&run, End::Failed), &definition, at(20)).unwrap();
    run.apply(Event::CancelAsked(Cause::User), &definition, at(21)).unwrap();
    assert_eq!((run.status(), run.cancelling()), (Status::Waiting, Some(Cause::User)));
}

#[test]
fn a_run_without_an_attempt_has_left_no_work() {
    let definition = accepted_elsewhere();
    let mut run = waiting();
    run.apply(Event::Due, &definition, at(5)).unwrap();
    run.apply(Event::CancelAsked(Cause::User), &definition, at(6)).unwrap();
    assert_eq!(run.status(), Status::Cancelled);
}

#[test]
fn an_attempt_that_is_given_back_leaves_the_cancel_to_the_next_one() {
    let definition = accepted_elsewhere();
    for (cause, status) in [
        (Cause::User, Status::Ready),
        (Cause::JobDeleted, Status::Ready),
        (Cause::UserNow, Status::Cancelled),
    ] {
        let mut run = running_again(&definition);
        run.apply(Event::CancelAsked(cause), &definition, at(23)).unwrap();
        run.apply(Event::Declined { token: run.token }, &definition, at(24)).unwrap();
        assert_eq!(run.status(), status, "{cause:?}");
    }
    let mut run = running(&definition);
    run.apply(Event::CancelAsked(Cause::User), &definition, at(7)).unwrap();
    run.apply(Event::Declined { token: run.token }, &definition, at(8)).unwrap();
    assert_eq!(run.status(), Status::Cancelled, "nothing was started");
}

#[test]
fn a_user_cancel_outranks_a_timeout_so_that_no_retry_follows() {
    let definition = definition(5);
    let mut run = running(&definition);
    run.apply(Event::CancelAsked(Cause::Timeout), &definition, at(7)).unwrap();
    run.apply(Event::CancelAsked(Cause::User), &definition, at(8)).unwrap();
    assert!(run.apply(Event::CancelAsked(Cause::Timeout), &definition, at(8)).is_err());
    run.apply(Event::Lost { token: run.token }, &definition, at(9)).unwrap();
    assert_eq!(run.status(), Status::Cancelled);
}

#[test]
fn a_worker_that_stops_an_attempt_at_its_timeout_times_it_out() {
    let definition = definition(1);
    let mut run = running(&definition);
    run.apply(reported(&run, End::TimedOut), &definition, at(9)).unwrap();
    let stopped = Some(Reason::Cancelled(Cause::Timeout));
    assert_eq!((run.status(), run.reason), (Status::TimedOut, stopped));
}

#[test]
fn a_user_cancel_outranks_the_timeout_of_a_worker() {
    let definition = definition(5);
    let mut run = running(&definition);
    run.apply(Event::CancelAsked(Cause::User), &definition, at(8)).unwrap();
    run.apply(reported(&run, End::TimedOut), &definition, at(9)).unwrap();
    assert_eq!(run.status(), Status::Cancelled);
}

#[test]
fn a_retry_forgets_that_the_attempt_before_it_timed_out() {
    let definition = definition(2);
    let mut run = running(&definition);
    run.apply(reported(&run, End::TimedOut), &definition, at(9)).unwrap();
    assert_eq!(run.reason, Some(Reason::Cancelled(Cause::Timeout)), "why it waits");
    run.apply(Event::Due, &definition, at(20)).unwrap();
    let token = run.token.next(Epoch(1));
    run.apply(Event::Assigned { worker: worker(), token }, &definition, at(21)).unwrap();
    run.apply(reported(&run, End::Succeeded), &definition, at(22)).unwrap();
    assert_eq!((run.status(), run.reason), (Status::Succeeded, None));
}

#[test]
fn at_most_once_gives_up_a_lost_attempt() {
    let definition = Definition { at_most_once: true, ..definition(1) };
    let mut run = running(&definition);
    run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
    assert_eq!((run.status(), run.reason.clone()), (Status::Failed, Some(Reason::LostAtMostOnce)));
}

#[test]
fn a_run_that_loses_three_workers_is_given_up() {
    let definition = definition(1);
    let mut run = running(&definition);
    for _ in 1..LOSSES_MAX {
        run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
        run.apply(Event::Due, &definition, at(21)).unwrap();
        let token = run.token.next(Epoch(1));
        run.apply(Event::Assigned { worker: worker(), token }, &definition, at(22)).unwrap();
    }
    run.apply(Event::Lost { token: run.token }, &definition, at(30)).unwrap();
    assert_eq!((run.status(), run.reason.clone()), (Status::Failed, Some(Reason::LostTooOften)));
}

#[test]
fn a_worker_cannot_claim_to_have_started_before_it_was_asked() {
    let definition = definition(1);
    let mut run = running(&definition);
    let outcome = Outcome::succeeded(at(0));
    run.apply(Event::Reported { token: run.token, outcome }, &definition, at(9)).unwrap();
    assert_eq!(run.started_at, Some(at(6)));
}

fn any_event() -> impl Strategy<Value = u8> {
    0u8..13
}

proptest! {
    /// Events arrive in any order. Terminal states are final, refused events change nothing, the entries record every
    /// change, and at most one result is accepted.
    #[test]
    fn any_sequence_of_events_keeps_the_promises_of_a_run(
        events in proptest::collection::vec(any_event(), 0..40),
        attempts in 1u32..4,
        at_most_once: bool,
        is_accepted_elsewhere: bool,
    ) {
        let task = if is_accepted_elsewhere { accepted_elsewhere().task } else { Task::Noop };
        let definition = Definition { at_most_once, task, ..definition(attempts) };
        let mut run = waiting();
        let (mut assigned, mut clock) = (0, 10);
        for event in events {
            clock += 1;
            let before = run.clone();
            let event = match event {
                0 => Event::Due,
                1 => Event::Held(Wait::Overlap),
                2 => Event::Assigned { worker: worker(), token: run.token.next(Epoch(1)) },
                3 => Event::CancelAsked(Cause::User),
                4 => reported(&run, End::Succeeded),
                5 => reported(&run, End::Failed),
                6 => Event::Lost { token: run.token },
                7 => Event::MoveAsked { to: None },
                8 => reported(&run, End::Yielded),
                9 => Event::NotStopped { token: run.token },
                10 => Event::CancelAsked(Cause::JobDeleted),
                11 => Event::CancelAsked(Cause::UserNow),
                _ => Event::Skipped(Reason::Overlap),
            };
            let is_assignment = matches!(event, Event::Assigned { .. });
            match run.apply(event, &definition, at(clock)) {
                Ok(()) => {
                    prop_assert!(!before.status().is_terminal(), "a terminal state moved on");
                    prop_assert_eq!(run.entries.len(), before.entries.len() + 1);
                    prop_assert_eq!(run.entries.last().map(|entry| entry.to), Some(run.status()));
                    assigned += usize::from(is_assignment);
                }
                Err(_) => prop_assert_eq!(&run, &before),
            }
            if at_most_once && attempts == 1 {
                prop_assert!(assigned <= 1, "at most once, and it started {} times", assigned);
            }
        }
        prop_assert!(run.failures <= attempts && run.losses <= LOSSES_MAX);
    }
}

fn in_three() -> Definition {
    Definition { route: Route { shards: Some(3), ..Route::default() }, ..definition(1) }
}

/// A run that is split into three parts.
fn split() -> Run {
    let mut run = waiting();
    run.apply(Event::Due, &in_three(), at(5)).unwrap();
    run.apply(Event::StepsBegun, &in_three(), at(5)).unwrap();
    run
}

/// The row of the part of that index, as its run ended on worker `w`.
fn ended_part(index: u32, status: Status) -> StepRecord {
    let key = StepKey { run: RunId(1), step: 0, item: Some(index) };
    let child = Some(RunId(10 + i64::from(index)));
    let mut row = StepRecord { child, workers: [Arc::from("w")].into(), ..StepRecord::active(key, at(5)) };
    match status {
        Status::Succeeded => row.end(StepState::Succeeded, None, at(9)),
        _ => row.end(StepState::Failed, Some(StepReason::Ended(status)), at(9)),
    }
    row
}

fn joined(run: &Run, ends: &[Status]) -> Run {
    let mut run = run.clone();
    let rows: Vec<StepRecord> =
        ends.iter().zip(0..).map(|(status, index)| ended_part(index, *status)).collect();
    let parts: Vec<&StepRecord> = rows.iter().collect();
    let (end, output) = split::joined(&parts, 3, run.cancelling().is_some());
    run.apply(Event::StepsEnded { end, output }, &in_three(), at(9)).unwrap();
    run
}

#[test]
fn a_parent_succeeds_when_all_its_children_have() {
    let run = joined(&split(), &[Status::Succeeded; 3]);
    assert_eq!((run.status(), run.reason.clone()), (Status::Succeeded, None));
    assert_eq!((run.attempt, run.finished_at), (0, Some(at(9))));
    let output: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!((&output["total"], &output["succeeded"]), (&3.into(), &3.into()));
    let second = serde_json::json!({ "index": 1, "run": "11", "state": "succeeded", "worker": "w" });
    assert_eq!(output["children"][1], second);
}

#[test]
fn a_parent_fails_when_one_child_did_and_names_it() {
    let run = joined(&split(), &[Status::Succeeded, Status::TimedOut, Status::Failed]);
    assert_eq!(run.status(), Status::Failed);
    let words = "2 of 3 child runs did not succeed, the first of them is that of index 1";
    assert_eq!(run.reason.clone().unwrap().to_string(), words);
    assert_eq!(&*run.error, "child runs that did not succeed: 1 timed_out (run 11), 2 failed (run 12)");
}

#[test]
fn a_cancelled_parent_is_cancelled_unless_its_children_were_faster() {
    let mut run = split();
    run.apply(Event::CancelAsked(Cause::User), &in_three(), at(6)).unwrap();
    assert_eq!((run.status(), run.cancelling()), (Status::Running, Some(Cause::User)));
    assert!(run.apply(Event::CancelAsked(Cause::Replaced), &definition(1), at(6)).is_err());
    let cancelled = joined(&run, &[Status::Succeeded, Status::Cancelled, Status::Cancelled]);
    assert_eq!(cancelled.status(), Status::Cancelled);
    assert_eq!(cancelled.reason, Some(Reason::Cancelled(Cause::User)));
    let faster = joined(&run, &[Status::Succeeded; 3]);
    assert_eq!(faster.status(), Status::Succeeded);
    let early = joined(&run, &[Status::Succeeded]);
    assert_eq!(early.status(), Status::Cancelled, "two parts never started");
}

#[test]
fn the_output_of_many_parts_lists_those_that_did_not_succeed() {
    let rows: Vec<StepRecord> = (0..2000).map(|index| ended_part(index, Status::Succeeded)).collect();
    let bad = ended_part(7, Status::Failed);
    let parts: Vec<&StepRecord> =
        rows.iter().map(|row| if row.key.item == Some(7) { &bad } else { row }).collect();
    let (_, output) = split::joined(&parts, 2000, false);
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&output["total"], &output["succeeded"]), (&2000.into(), &1999.into()));
    let child = serde_json::json!({ "index": 7, "run": "17", "state": "failed", "worker": "w" });
    assert_eq!(output["children"], serde_json::json!([child]));
}

#[test]
fn a_part_is_not_split_again() {
    let mut run = waiting();
    run.part_of = Some(Box::new(PartOf { parent: RunId(0), part: Part::default(), worker: None }));
    run.apply(Event::Due, &in_three(), at(5)).unwrap();
    assert!(run.apply(Event::StepsBegun, &in_three(), at(5)).is_err());
}

#[test]
fn only_a_run_that_is_meant_for_one_worker_fails_when_that_one_is_gone() {
    let mut run = waiting();
    run.apply(Event::Due, &definition(1), at(5)).unwrap();
    assert!(run.apply(Event::WorkerGone, &definition(1), at(6)).is_err());
    let worker = Some(Arc::from("w"));
    run.part_of = Some(Box::new(PartOf { parent: RunId(0), part: Part::default(), worker }));
    run.apply(Event::WorkerGone, &definition(1), at(6)).unwrap();
    assert_eq!((run.status(), run.reason.clone()), (Status::Failed, Some(Reason::WorkerGone)));
}
