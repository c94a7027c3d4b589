//! Every state of a run and of a job has its answer.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::hold::{Fires, Scope};
use crate::ids::JobId;
use crate::job::Pause;
use crate::run::{Cause, Event, Trigger};
use crate::schedule::{After, Ends, Schedule};
use crate::task::Task;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LED: Facts<'static> = Facts { now: NOW, hold: None, is_led: true };

fn at(seconds: u64) -> Timestamp {
    NOW + Duration::from_secs(seconds)
}

fn definition() -> Definition {
    Definition { limits: vec![crate::job::Limit::of_running(2)], ..Definition::of(Task::Noop) }
}

fn run(state: State) -> Run {
    let origin = Origin::AdHoc(Arc::new(definition()));
    let run = Run::new(RunId(1), "default".parse().unwrap(), origin, Trigger::Submit, NOW, NOW);
    Run { state, ..run }
}

#[track_caller]
fn check(run: &Run, facts: Facts<'_>, code: Code, words: &str) -> Why {
    let why = of_run(run, &definition(), Some(RunId(7)), facts);
    assert_eq!(why.code, code, "{why:?}");
    assert!(why.message.contains(words), "{why:?}");
    why
}

#[test]
fn a_waiting_run_says_what_it_waits_for() {
    let waiting = |wait| run(State::Waiting { wait });
    let delayed = check(&waiting(Wait::Due(at(60))), LED, Code::Delayed, "is due at");
    assert_eq!(delayed.until, Some(at(60)));
    check(&waiting(Wait::Due(NOW)), LED, Code::Due, "in a moment");
    let backoff = check(&waiting(Wait::Backoff(at(5))), LED, Code::Backoff, "the next attempt starts at");
    assert_eq!(backoff.until, Some(at(5)));
    let held = check(&waiting(Wait::Overlap), LED, Code::Overlap, "until run 7 of the same job");
    assert_eq!(held.details.run, Some(RunId(7)));
    check(&waiting(Wait::Limit(0)), LED, Code::Limit, "its limit of 2 at once (`limits.running`)");
}

#[test]
fn a_ready_run_says_which_condition_no_worker_meets() {
    let ready = run(State::Ready { since: NOW });
    check(&ready, LED, Code::NoFreeSlot, "busy");
    let labels = vec!["zone=eu".into(), "disk=ssd".into()];
    let lack = Lack::Labels { worker: "w1".into(), labels };
    let why = check(
        &Run { reason: Some(Reason::NoWorkerFits(lack)), ..ready.clone() },
        LED,
        Code::NoWorkerFits,
        "lacks the labels",
    );
    assert_eq!(why.details.missing, ["label zone=eu", "label disk=ssd"]);
    assert_eq!(why.details.worker.as_deref(), Some("w1"));
    for (lack, missing) in [
        (Lack::Workers, "worker"),
        (Lack::Kind("http".into()), "task http"),
        (Lack::Function("settle".parse().unwrap()), "function settle"),
        (Lack::Worker("w9".into()), "worker w9"),
    ] {
        let run = Run { reason: Some(Reason::NoWorkerFits(lack)), ..ready.clone() };
        assert_eq!(check(&run, LED, Code::NoWorkerFits, "no worker fits").details.missing, [missing]);
    }
}

#[test]
fn without_a_leader_nothing_starts() {
    let alone = Facts { is_led: false, ..LED };
    check(&run(State::Ready { since: NOW }), alone, Code::NoLeader, "no node leads");
    check(&run(State::Waiting { wait: Wait::Due(NOW) }), alone, Code::NoLeader, "no node leads");
    check(&run(State::Waiting { wait: Wait::Due(at(1)) }), alone, Code::Delayed, "is due at");
}

#[test]
fn an_ended_run_says_how_it_ended() {
    let mut cancelled = run(State::Waiting { wait: Wait::Due(NOW) });
    cancelled.apply(Event::CancelAsked(Cause::User), &definition(), NOW).unwrap();
    check(&cancelled, LED, Code::Ended, "cancelled on request");
    let skipped = Run { reason: Some(Reason::Overlap), ..run(State::Skipped) };
    check(&skipped, LED, Code::Overlap, "an earlier run of the job was still active");
    check(&run(State::TimedOut), LED, Code::Ended, "timed out");
}

fn job(schedules: Vec<Schedule>) -> Job {
    let definition = Arc::new(Definition { schedules, ..definition() });
    Job::new(JobId(1), "default".parse().unwrap(), "nightly".parse().unwrap(), definition, NOW)
}

fn every(seconds: u64) -> Vec<Schedule> {
    vec![Schedule::new(When::Every(Duration::from_secs(seconds)))]
}

#[test]
fn a_job_says_what_it_waits_for() {
    let check = |job: &Job, last: Last<'_>, facts, code, words: &str| {
        let why = of_job(job, last, facts);
        assert_eq!(why.code, code, "{why:?}");
        assert!(why.message.contains(words), "{why:?}");
        assert_eq!(why.details.job.as_ref().map(Name::as_str), Some("nightly"));
    };
    let scheduled = job(every(60));
    let nothing = Last::default();
    check(&scheduled, nothing, LED, Code::Scheduled, "is due next at");
    let mut paused = scheduled.clone();
    let pause = Pause { reason: "too slow".into(), by: Some("ops".into()), since: NOW, until: None };
    paused.pause(pause.clone());
    check(
        &paused,
        nothing,
        LED,
        Code::Paused,
        "paused by ops: too slow; it is due again when someone resumes it",
    );
    paused.pause(Pause { until: Some(at(60)), ..pause });
    check(&paused, nothing, LED, Code::Paused, "it is resumed at");
    check(&job(Vec::new()), nothing, LED, Code::Manual, "by hand");
    let after = After { job: "load".parse().unwrap(), on: Ends::Succeeded };
    let listening = job(vec![Schedule::new(When::After(after))]);
    check(&listening, nothing, LED, Code::Events, "is started by job `load`");
    assert!(!listening.is_finished());
    let later = Facts { now: at(120), is_led: false, ..LED };
    check(&scheduled, nothing, later, Code::NoLeader, "no node leads");

    let live = run(State::Ready { since: NOW });
    let definition = definition();
    let waits = Last { live: Some((&live, &definition)), ..nothing };
    check(&scheduled, waits, LED, Code::NoFreeSlot, "run 1: every worker");
}

#[test]
fn a_job_names_the_due_times_that_were_skipped_last() {
    let scheduled = job(every(60));
    for (reason, code) in [
        (SkipReason::Misfire, Code::Misfire),
        (SkipReason::Calendar, Code::Calendar),
        (SkipReason::Edited, Code::Edited),
        (SkipReason::Paused, Code::Paused),
        (SkipReason::Held, Code::Held),
    ] {
        let skip = Skip { job: JobId(1), revision: 1, from: NOW, to: at(5), reason, at: at(6) };
        let last = Last { skip: Some(&skip), ..Last::default() };
        let why = of_job(&scheduled, last, LED);
        assert_eq!((why.code, why.until), (code, scheduled.cursor.next_due), "{why:?}");
        let newer = Run { due: at(30), ..run(State::Succeeded) };
        let why = of_job(&scheduled, Last { ended: Some(&newer), ..last }, LED);
        assert_eq!(why.code, Code::Scheduled, "a later due time made a run");
    }
    let skipped = Run { reason: Some(Reason::Overlap), ..run(State::Skipped) };
    let why = of_job(&scheduled, Last { ended: Some(&skipped), ..Last::default() }, LED);
    assert_eq!((why.code, why.details.run), (Code::Overlap, Some(RunId(1))));
}

#[test]
fn a_run_that_waits_is_foremost_and_one_that_is_not_due_is_left_out() {
    let later = Arc::new(run(State::Waiting { wait: Wait::Due(at(60)) }));
    let split = Arc::new(run(State::Split { since: NOW, cancelling: None }));
    let held = Arc::new(run(State::Waiting { wait: Wait::Overlap }));
    let found = |runs: &[&Arc<Run>]| {
        let runs: Vec<Arc<Run>> = runs.iter().map(|run| Arc::clone(run)).collect();
        foremost(&runs, NOW).map(|run| run.state.clone())
    };
    assert_eq!(found(&[&later]), None);
    assert_eq!(found(&[&later, &split]), Some(split.state.clone()));
    assert_eq!(found(&[&split, &held]), Some(held.state.clone()));
}

#[test]
fn a_hold_is_why_nothing_that_is_due_starts() {
    let scope = Scope::Namespace("default".parse().unwrap());
    let pause = Pause {
        reason: "the bank is closed".into(),
        by: Some("ops".into()),
        since: NOW,
        until: Some(at(60)),
    };
    let hold = Hold { scope, pause, fires: Fires::Keep };
    let on_hold = Facts { hold: Some(&hold), ..LED };
    let waiting = |wait| run(State::Waiting { wait });
    for run in [waiting(Wait::Hold), waiting(Wait::Overlap), run(State::Ready { since: NOW })] {
        let words = "namespace `default` is on hold by ops: the bank is closed; it ends at";
        assert_eq!(check(&run, on_hold, Code::Held, words).until, Some(at(60)));
    }
    check(&waiting(Wait::Due(at(60))), on_hold, Code::Delayed, "is due at");
    check(&waiting(Wait::Hold), LED, Code::Due, "the hold has ended");
    let running = State::Split { since: NOW, cancelling: None };
    check(&run(running), on_hold, Code::Running, "at work");
    let why = of_job(&job(every(60)), Last::default(), on_hold);
    assert_eq!(why.code, Code::Held);
    assert!(why.message.starts_with("the job waits: namespace"), "{why:?}");
}
