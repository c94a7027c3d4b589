//! When a job fires: what its schedules say, each instant once.

use punctual_core::command::{Command, RunJob, Submit};
use punctual_core::job::{Definition, Overlap};
use punctual_core::run::{Status, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Params;

use crate::support::{Rig, after_finish, at, every, made, manual, on, once_at, span, start, submit};

/// A job of these schedules fires at these seconds of the first minute, and never before its time.
fn check(schedules: impl IntoIterator<Item = Schedule>, dues: &[i64]) {
    let mut rig = Rig::new(0);
    rig.put("job", Definition { overlap: Overlap::Allow, ..on(schedules) });
    rig.advance("1m");
    assert_eq!(rig.dues("job"), dues);
    for run in rig.runs("job") {
        assert!(run.created_at >= run.due && run.trigger == Trigger::Schedule, "{run:?}");
    }
}

#[test]
fn every_counts_from_the_creation_of_its_job() {
    check([every("20s")], &[20, 40, 60]);
}

#[test]
fn every_counts_from_its_start_which_fires_itself() {
    check([Schedule { start: Some(at("5s")), ..every("20s") }], &[5, 25, 45]);
}

#[test]
fn nothing_fires_after_the_end_which_itself_may_fire() {
    check([Schedule { end: Some(at("40s")), ..every("20s") }], &[20, 40]);
}

#[test]
fn max_runs_counts_the_fires_of_its_own_schedule() {
    check([Schedule { max_runs: Some(2), ..every("10s") }, every("30s")], &[10, 20, 30, 60]);
}

#[test]
fn at_fires_once() {
    check([once_at("7s")], &[7]);
}

#[test]
fn a_manual_schedule_never_fires() {
    check([Schedule::new(When::Manual)], &[]);
}

#[test]
fn several_schedules_meeting_in_one_instant_make_one_run() {
    check([every("15s"), every("30s"), once_at("30s")], &[15, 30, 45, 60]);
}

#[test]
fn a_late_fire_does_not_move_the_next_one() {
    let mut rig = Rig::new(1);
    rig.put("job", on([every("10s")]));
    rig.outage("13s");
    rig.succeed_all();
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [10, 20]);
}

#[test]
fn jitter_delays_the_start_and_not_the_due_time() {
    let mut rig = Rig::new(0);
    let spread = Schedule { jitter: span("8s"), ..every("10s") };
    rig.put("job", Definition { overlap: Overlap::Allow, ..on([spread]) });
    rig.advance("10m");
    let runs = rig.runs("job");
    assert!(runs.iter().all(|run| run.due.since(at("0s")).as_secs().is_multiple_of(10)));
    let delays: Vec<_> = runs.iter().map(|run| run.created_at.since(run.due)).collect();
    assert!(delays.iter().all(|delay| *delay < span("8s")), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay > span("4s")), "a hash that never spreads: {delays:?}");
}

#[test]
fn a_jitter_longer_than_the_period_makes_nothing_missed() {
    let mut rig = Rig::new(0);
    let spread = Schedule { jitter: span("5m"), ..every("10s") };
    rig.put("job", Definition { overlap: Overlap::Allow, ..on([spread]) });
    rig.advance("30m");
    let runs = rig.runs("job");
    assert!(runs.iter().all(|run| run.trigger == Trigger::Schedule), "nobody was away");
    assert!(runs.len() >= 140 && rig.skips().is_empty());
    assert!(rig.dues("job").iter().zip(1..).all(|(due, beat)| *due == 10 * beat), "each due time once");
}

#[test]
fn after_finish_begins_at_once_and_counts_from_the_end_of_its_run() {
    let mut rig = Rig::new(1);
    rig.put("job", on([after_finish("10s")]));
    rig.advance("3s");
    rig.succeed_all();
    rig.advance("30s");
    assert_eq!(rig.dues("job"), [0, 13], "the second has not ended, so there is no third");
}

#[test]
fn after_finish_waits_for_the_last_attempt() {
    let mut rig = Rig::new(1);
    let mut job = on([after_finish("10s")]);
    job.retry.attempts = 2;
    job.retry.delay = span("5s");
    rig.put("job", job);
    let run = rig.runs("job")[0].id;
    rig.fail(run);
    rig.advance("7s");
    rig.fail(run);
    rig.advance("10s");
    assert_eq!(rig.dues("job"), [0, 17]);
}

/// A job that counts from the end of its runs, each of which ends within a second.
fn check_after_finish(schedule: Schedule, dues: &[i64]) {
    let mut rig = Rig::new(1);
    rig.put("job", on([schedule]));
    for _ in 0..30 {
        rig.advance("1s");
        rig.succeed_all();
    }
    assert_eq!(rig.dues("job"), dues);
}

#[test]
fn after_finish_keeps_its_start_end_and_max_runs() {
    check_after_finish(Schedule { start: Some(at("5s")), ..after_finish("10s") }, &[5, 15, 25]);
    check_after_finish(Schedule { end: Some(at("15s")), ..after_finish("10s") }, &[0, 11]);
    check_after_finish(Schedule { max_runs: Some(2), ..after_finish("10s") }, &[0, 11]);
}

#[test]
fn after_finish_that_has_ended_does_not_begin() {
    let mut rig = Rig::new(1);
    rig.advance("20s");
    rig.put("job", on([Schedule { end: Some(at("15s")), ..after_finish("10s") }]));
    rig.advance("1m");
    assert!(rig.runs("job").is_empty());
}

#[test]
fn a_run_started_by_hand_has_its_own_instant_and_params() {
    let mut rig = Rig::new(2);
    rig.put("job", Definition { overlap: Overlap::Allow, ..on([every("10s")]) });
    rig.pass("10s");
    let by_hand = rig.start("job");
    assert_eq!(rig.dues("job"), [10, 10], "a fire and a start in one instant are two runs");
    assert_eq!(rig.run(by_hand).trigger, Trigger::Manual);
    assert!(by_hand > rig.runs("job")[0].id, "the fire came first");

    let params = Some(Params("{\"day\":3}".into()));
    let run = made(rig.ask(Command::RunJob(RunJob { params: params.clone(), ..start("job") })));
    assert_eq!(rig.run(run).params, params);
}

#[test]
fn a_delayed_start_and_a_delayed_submit_wait_for_their_time() {
    let mut rig = Rig::new(2);
    rig.put("job", manual());
    let started = rig.start_at("job", at("1h"));
    let submitted = made(rig.ask(Command::Submit(Submit { due: Some(at("1h")), ..submit(manual()) })));
    rig.advance("59m");
    assert_eq!([rig.status(started), rig.status(submitted)], [Status::Waiting; 2]);
    rig.advance("1m");
    assert_eq!([rig.status(started), rig.status(submitted)], [Status::Running; 2]);
}

#[test]
fn after_finish_continues_after_an_edit_during_a_manual_run() {
    let mut rig = Rig::new(1);
    rig.put("job", manual());
    let by_hand = rig.start("job");
    rig.put("job", on([after_finish("10s")]));
    rig.advance("5s");
    rig.succeed(by_hand);
    rig.advance("1m");
    assert_eq!(rig.statuses("job"), [Status::Succeeded, Status::Skipped, Status::Running]);
}
