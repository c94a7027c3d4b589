//! What happens when a run is due while an earlier one of its job is still active.

use Status::{Cancelled, Ready, Running, Skipped, Succeeded, Waiting};
use punctual_core::attempt::End;
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Limit, Overlap};
use punctual_core::limits::HELD_PER_JOB_MAX;
use punctual_core::run::{Cause, Reason, Status};

use crate::support::{Rig, after_finish, cancel, every, manual, on, span};

fn job(overlap: Overlap) -> Definition {
    Definition { overlap, ..manual() }
}

/// A rig with three starts of one job, one after the other.
fn three(overlap: Overlap) -> Rig {
    let mut rig = Rig::new(5);
    rig.put("job", job(overlap));
    for _ in 0..3 {
        rig.start("job");
        rig.advance("1s");
    }
    rig
}

/// Three starts, then every attempt under way ends well, again and again.
fn check(overlap: Overlap, at_first: [Status; 3], in_the_end: [Status; 3]) {
    let mut rig = three(overlap);
    assert_eq!(rig.statuses("job"), at_first);
    while !rig.running().is_empty() {
        assert!(overlap == Overlap::Allow || rig.running().len() == 1, "two at once");
        rig.succeed_all();
    }
    assert_eq!(rig.statuses("job"), in_the_end);
}

#[test]
fn skip_records_the_later_ones() {
    check(Overlap::Skip, [Running, Skipped, Skipped], [Succeeded, Skipped, Skipped]);
    assert_eq!(three(Overlap::Skip).runs("job")[2].reason, Some(Reason::Overlap));
}

#[test]
fn queue_lets_them_wait_their_turn() {
    check(Overlap::Queue, [Running, Waiting, Waiting], [Succeeded; 3]);
}

#[test]
fn queue_one_lets_one_wait() {
    check(Overlap::QueueOne, [Running, Waiting, Skipped], [Succeeded, Succeeded, Skipped]);
}

#[test]
fn replace_cancels_the_older_ones() {
    check(Overlap::Replace, [Running, Cancelled, Waiting], [Succeeded, Cancelled, Succeeded]);
}

#[test]
fn allow_runs_them_side_by_side() {
    check(Overlap::Allow, [Running; 3], [Succeeded; 3]);
}

#[test]
fn a_run_that_is_being_cancelled_keeps_its_place_until_its_worker_reports() {
    let mut rig = three(Overlap::Replace);
    let first = rig.runs("job")[0].clone();
    assert_eq!(first.cancelling(), Some(Cause::Replaced));
    assert_eq!(rig.cancelled_orders(), [first.id], "it is told once");
    rig.advance("10s");
    assert_eq!(rig.running(), [first.id], "the next one waits while its worker may still stop it");
    rig.report(first.id, End::Failed);
    assert_eq!(rig.statuses("job"), [Cancelled, Cancelled, Running]);
}

#[test]
fn a_cancelled_place_is_free_when_its_worker_is_lost() {
    let mut rig = three(Overlap::Replace);
    rig.lose_worker();
    assert_eq!(rig.statuses("job"), [Cancelled, Cancelled, Ready]);
}

/// A job whose lost attempts count as running for 30 s more, with a run that waits for the first.
fn two_of_a_lost_worker() -> (Rig, [RunId; 2]) {
    let mut rig = Rig::new(5);
    rig.put("job", Definition { overlap_grace: Some(span("30s")), ..job(Overlap::Queue) });
    let runs = [rig.start("job"), rig.start("job")];
    rig.lose_worker();
    (rig, runs)
}

#[test]
fn with_an_overlap_grace_nothing_starts_soon_after_a_loss() {
    let (mut rig, [first, second]) = two_of_a_lost_worker();
    rig.join(5);
    rig.advance("29s");
    assert_eq!((rig.status(first), rig.status(second)), (Running, Waiting));
    assert_eq!(rig.assigned(), [first], "its first attempt only");
    rig.advance("1s");
    assert_eq!(rig.assigned(), [first, first]);
    rig.succeed(first);
    assert_eq!((rig.status(first), rig.status(second)), (Succeeded, Running));
}

#[test]
fn a_lost_attempt_that_has_ended_no_longer_counts_as_running() {
    for (end, status) in [(End::Failed, Ready), (End::Succeeded, Succeeded)] {
        let (mut rig, [first, _]) = two_of_a_lost_worker();
        rig.report(first, end);
        assert_eq!(rig.status(first), status, "a loss uses up no attempt");
    }
}

#[test]
fn a_cancel_reaches_a_lost_attempt_during_its_overlap_grace() {
    let (mut rig, [first, second]) = two_of_a_lost_worker();
    rig.ask(cancel(first)).expect("it counts as running");
    rig.join(5);
    rig.advance("29s");
    assert_eq!((rig.status(first), rig.status(second)), (Running, Waiting));
    rig.advance("1s");
    assert_eq!((rig.status(first), rig.status(second)), (Cancelled, Running));
}

#[test]
fn a_retry_that_waits_still_holds_the_job() {
    let mut rig = Rig::new(5);
    let mut definition = job(Overlap::Queue);
    definition.retry.attempts = 2;
    rig.put("job", definition);
    let (first, second) = (rig.start("job"), rig.start("job"));
    rig.fail(first);
    assert_eq!((rig.status(first), rig.status(second)), (Waiting, Waiting));
    rig.advance("10s");
    assert_eq!(rig.running(), [first], "its turn is not over");
    rig.succeed(first);
    assert_eq!(rig.running(), [second]);
}

#[test]
fn a_queue_is_bounded_and_says_so() {
    let mut rig = Rig::new(1);
    rig.put("job", job(Overlap::Queue));
    for _ in 0..HELD_PER_JOB_MAX + 2 {
        rig.start("job");
    }
    let runs = rig.runs("job");
    assert_eq!(runs.iter().filter(|run| run.status() == Waiting).count(), HELD_PER_JOB_MAX);
    assert_eq!(runs.last().and_then(|run| run.reason.clone()), Some(Reason::HeldTooMany));
}

#[test]
fn a_limit_holds_what_allow_would_start() {
    let mut rig = Rig::new(5);
    rig.put("job", Definition { limits: vec![Limit::of_running(2)], ..job(Overlap::Allow) });
    let runs = [(); 4].map(|()| rig.start("job"));
    assert_eq!(rig.statuses("job"), [Running, Running, Waiting, Waiting]);
    rig.succeed(runs[1]);
    assert_eq!(rig.statuses("job"), [Running, Succeeded, Running, Waiting]);
    rig.ask(cancel(runs[3])).expect("a held run can be cancelled");
    rig.succeed(runs[0]);
    assert_eq!(rig.statuses("job"), [Succeeded, Succeeded, Running, Cancelled]);
}

#[test]
fn a_retry_meets_the_limit_again() {
    let mut rig = Rig::new(5);
    let mut definition = Definition { limits: vec![Limit::of_running(1)], ..job(Overlap::Allow) };
    definition.retry.attempts = 2;
    rig.put("job", definition);
    let (first, second) = (rig.start("job"), rig.start("job"));
    rig.fail(first);
    assert_eq!(rig.running(), [second], "a retry that waits gives its place away");
    rig.advance("10s");
    assert_eq!(rig.running(), [second]);
    rig.succeed(second);
    assert_eq!(rig.running(), [first]);
}

/// Three starts under one policy, then an edit to another.
fn check_edit(from: Overlap, to: Definition, after_edit: [Status; 3], after_end: [Status; 3]) {
    let mut rig = three(from);
    rig.put("job", to);
    assert_eq!(rig.statuses("job"), after_edit, "after the edit");
    let first = rig.running()[0];
    rig.succeed(first);
    assert_eq!(rig.statuses("job"), after_end, "after the end of the first");
}

#[test]
fn an_edit_to_allow_lets_all_in() {
    let allow = job(Overlap::Allow);
    check_edit(Overlap::Queue, allow.clone(), [Running; 3], [Succeeded, Running, Running]);
    let two = Definition { limits: vec![Limit::of_running(2)], ..allow };
    check_edit(Overlap::Queue, two, [Running, Running, Waiting], [Succeeded, Running, Running]);
}

#[test]
fn an_edit_to_a_narrower_policy_stops_nobody() {
    check_edit(
        Overlap::Queue,
        job(Overlap::Skip),
        [Running, Waiting, Waiting],
        [Succeeded, Running, Waiting],
    );
    check_edit(Overlap::Allow, job(Overlap::Queue), [Running; 3], [Succeeded, Running, Running]);
}

#[test]
fn after_an_edit_from_allow_the_next_one_waits_for_all_of_them() {
    let mut rig = three(Overlap::Allow);
    rig.put("job", job(Overlap::Queue));
    let next = rig.start("job");
    for run in rig.running() {
        assert_eq!(rig.status(next), Waiting);
        rig.succeed(run);
    }
    assert_eq!(rig.status(next), Running);
}

#[test]
fn an_after_finish_job_goes_on_when_its_fire_was_skipped() {
    let mut rig = Rig::new(2);
    rig.put("job", on([after_finish("10s")]));
    rig.succeed_all();
    let by_hand = rig.start("job");
    rig.advance("10s");
    assert_eq!(rig.statuses("job"), [Succeeded, Running, Skipped]);
    rig.succeed(by_hand);
    rig.advance("10s");
    assert_eq!(rig.statuses("job"), [Succeeded, Succeeded, Skipped, Running]);
}

#[test]
fn at_most_one_runs_whatever_the_schedule() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::QueueOne, Overlap::Replace] {
        let mut rig = Rig::new(5);
        rig.put("job", Definition { overlap, timeout: Some(span("3s")), ..on([every("1s")]) });
        for second in 0..60 {
            rig.advance("1s");
            assert!(rig.running().len() <= 1, "{overlap:?}");
            if second % 4 == 3 {
                for run in rig.running() {
                    rig.report(run, if second % 8 == 3 { End::Failed } else { End::Succeeded });
                }
            }
        }
        assert_eq!(rig.runs("job").len(), 60, "every fire is on record");
    }
}
