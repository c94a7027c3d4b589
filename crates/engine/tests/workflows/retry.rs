//! Retries of workflows from some of their steps.

use punctual_core::command::{Answer, RetryRun};
use punctual_core::workflow::{RetryFrom, StepParams, StepReason};

use super::*;
use crate::support::retry;

fn named(name: &str) -> punctual_core::name::Name {
    name.parse().expect("a valid name")
}

fn from_failed(run: RunId) -> RetryRun {
    RetryRun { from: Some(RetryFrom::Failed), ..retry(run) }
}

fn from_steps(run: RunId, steps: &[&str]) -> RetryRun {
    let steps = steps.iter().map(|step| named(step)).collect();
    RetryRun { from: Some(RetryFrom::Steps(steps)), ..retry(run) }
}

#[track_caller]
fn made(rig: &mut Rig, retry: RetryRun) -> RunId {
    match rig.ask(Command::RetryRun(retry)) {
        Ok(Answer::Run(run)) => run.id,
        other => panic!("no retry was made: {other:?}"),
    }
}

fn refused(rig: &mut Rig, retry: RetryRun) -> String {
    let batches = rig.batches.len();
    let refusal = rig.ask(Command::RetryRun(retry)).expect_err("it must be refused").to_string();
    assert_eq!(rig.batches.len(), batches, "{refusal}");
    refusal
}

/// Extract succeeds, load fails; `settle` needs load, `audit` needs extract.
fn failed(rig: &mut Rig) -> RunId {
    let steps = vec![
        step("extract", &[]),
        step("load", &["extract"]),
        step("settle", &["load"]),
        step("audit", &["extract"]),
        Step { when: Some("false".to_owned()), ..step("never", &["extract"]) },
    ];
    let run = rig.start_workflow(job(workflow(steps, vec![step("clean", &[])])));
    rig.say(run, "extract", r#"{"rows": 7}"#);
    rig.end_step(run, "audit", End::Succeeded);
    rig.end_step(run, "load", End::Failed);
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Failed);
    run
}

#[test]
fn failed_steps_run_again_and_the_others_are_reused() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    let run = made(&mut rig, from_failed(old));
    assert_eq!((rig.run(run).retry_of, rig.at_work(run)), (Some(old), "load".to_owned()));
    assert_eq!(rig.run(run).percent(), Some(50));
    rig.finish(run);
    assert_eq!(
        rig.rows_of(run),
        [
            "0 succeeded (reused)",
            "1 succeeded",
            "2 succeeded",
            "3 succeeded (reused)",
            "4 skipped (reused)",
            "5 succeeded"
        ]
    );
    assert_eq!(rig.status(run), Status::Succeeded);
    let (before, now) = (rig.step_rows(old)[0].clone(), rig.step_rows(run)[0].clone());
    assert_eq!((&now.output, now.child), (&before.output, before.child));
    assert!(now.output.is_some());
    assert_eq!(rig.pool.live_runs(), 0);
}

#[test]
fn named_steps_run_again_with_all_that_need_them() {
    let mut rig = Rig::new(4);
    let first = rig.start_workflow(job(diamond()));
    rig.finish(first);
    let run = made(&mut rig, from_steps(first, &["left"]));
    assert_eq!(rig.at_work(run), "left");
    rig.finish(run);
    let expected = ["0 succeeded (reused)", "1 succeeded", "2 succeeded (reused)", "3 succeeded"];
    assert_eq!(rig.rows_of(run), expected);
    // A retry of a retry reuses what was reused.
    let again = made(&mut rig, from_steps(run, &["join"]));
    assert_eq!(rig.at_work(again), "join");
    assert_eq!(rig.step_rows(again)[0].child, rig.step_rows(first)[0].child);
    rig.finish(again);
    assert_eq!(rig.status(again), Status::Succeeded);
}

#[test]
fn steps_that_the_stop_skipped_run_again() {
    let mut rig = Rig::new(4);
    let steps = vec![step("a", &[]), step("b", &["a"]), step("c", &["b"])];
    let old = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(old, "a", End::Succeeded);
    rig.ask(cancel(old)).unwrap();
    rig.end_step(old, "b", End::Succeeded);
    assert_eq!(rig.status(old), Status::Cancelled);
    let run = made(&mut rig, from_failed(old));
    assert_eq!(rig.at_work(run), "c");
}

#[test]
fn a_held_retry_knows_its_reused_steps_after_a_crash() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    let definition =
        Definition { overlap: Overlap::Queue, ..(*rig.job("flow").expect("it was put").definition).clone() };
    rig.ask(put("flow", definition)).unwrap();
    let other = rig.start("flow");
    let run = made(&mut rig, from_failed(old));
    assert_eq!(rig.status(run), Status::Waiting);
    rig.reload();
    rig.finish(other);
    assert_eq!(rig.at_work(run), "load");
    rig.reload();
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
    assert!(rig.rows_of(run).contains(&"0 succeeded (reused)".to_owned()));
}

#[test]
fn a_held_retry_that_was_cancelled_can_be_tried_again() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    let queued =
        Definition { overlap: Overlap::Queue, ..(*rig.job("flow").expect("it was put").definition).clone() };
    rig.ask(put("flow", queued)).unwrap();
    let other = rig.start("flow");
    let held = made(&mut rig, from_failed(old));
    rig.ask(cancel(held)).unwrap();
    assert_eq!(rig.status(held), Status::Cancelled);
    rig.finish(other);
    let run = made(&mut rig, from_failed(held));
    assert_eq!(rig.at_work(run), "load");
}

#[test]
fn reused_rows_and_the_new_run_are_one_batch() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    rig.reload();
    let before = rig.batches.len();
    let run = made(&mut rig, from_failed(old));
    let batch = &rig.batches[before];
    let rows = batch.changes.iter().filter(|(_, change)| match change {
        Change::Insert(Row::Step(step)) => {
            step.key.run == run && matches!(step.reason, Some(StepReason::Reused { .. }))
        }
        _ => false,
    });
    assert_eq!(rows.count(), 3);
    assert!(
        batch
            .changes
            .iter()
            .any(|(_, change)| matches!(change, Change::Insert(Row::Run(of)) if of.id == run))
    );
}

#[test]
fn a_retry_that_is_skipped_at_once_has_no_rows() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    let definition =
        Definition { overlap: Overlap::Skip, ..(*rig.job("flow").expect("it was put").definition).clone() };
    rig.ask(put("flow", definition)).unwrap();
    let other = rig.start("flow");
    let run = made(&mut rig, from_failed(old));
    assert_eq!((rig.status(run), rig.rows_of(run).len()), (Status::Skipped, 0));
    rig.finish(other);
}

#[test]
fn a_newer_revision_reuses_the_steps_that_it_still_has() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    // `extract` is new at another place, `audit` is gone, and `settle` needs a new step.
    let steps = vec![
        step("check", &[]),
        step("extract", &[]),
        step("load", &["extract"]),
        step("settle", &["load", "check"]),
    ];
    rig.ask(put("flow", job(workflow(steps, vec![])))).unwrap();
    let run = made(&mut rig, from_failed(old));
    assert_eq!(rig.at_work(run), "check load");
    rig.finish(run);
    assert_eq!(rig.rows_of(run), ["0 succeeded", "1 succeeded (reused)", "2 succeeded", "3 succeeded"]);
}

#[test]
fn everything_reused_ends_at_once_and_finally_runs_again() {
    let mut rig = Rig::new(4);
    let steps = vec![step("a", &[])];
    let old = rig.start_workflow(job(workflow(steps, vec![step("clean", &[])])));
    rig.finish(old);
    let run = made(&mut rig, from_steps(old, &["clean"]));
    assert_eq!(rig.at_work(run), "clean");
    rig.finish(run);
    assert_eq!(rig.rows_of(run), ["0 succeeded (reused)", "1 succeeded"]);
}

#[test]
fn the_whole_of_a_failed_map_runs_again() {
    let mut rig = Rig::new(4);
    let steps = vec![mapped("load", &[], "[1, 2]", None), mapped("fine", &[], "[1]", None)];
    let old = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(old, "load[0]", End::Succeeded);
    rig.end_step(old, "fine[0]", End::Succeeded);
    rig.end_step(old, "load[1]", End::Failed);
    let run = made(&mut rig, from_failed(old));
    assert_eq!(rig.at_work(run), "load[0] load[1]");
    rig.finish(run);
    let reused = rig.step_rows(run).into_iter().find(|row| row.key.step == 1).expect("a row");
    assert_eq!(reused.items.map(|items| (items.total, items.succeeded)), Some((1, 1)));
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_reused_output_that_is_too_long_still_says_so() {
    let mut rig = Rig::new(4);
    let next = Step { when: Some("steps.a.output == 7".to_owned()), ..step("b", &["a"]) };
    let old = rig.start_workflow(job(workflow(vec![step("a", &[]), next], vec![])));
    rig.say(old, "a", &"x".repeat(70_000));
    assert_eq!(rig.status(old), Status::Failed);
    let run = made(&mut rig, from_failed(old));
    assert_eq!(rig.rows_of(run), ["0 succeeded (reused: output_too_long)", "1 failed (expression)"]);
}

#[test]
fn parameters_of_a_step_are_merged_over_its_own() {
    let mut rig = Rig::new(4);
    let load = Step { params: Params(r#"{"day": 1, "kind": "all"}"#.into()), ..step("load", &[]) };
    let old = rig.start_workflow(job(workflow(vec![load, step("other", &[])], vec![])));
    rig.end_step(old, "load", End::Failed);
    rig.finish(old);
    let given = StepParams::from([(named("load"), Params(r#"{"day": 2}"#.into()))]);
    let run = made(&mut rig, RetryRun { step_params: Some(given), ..from_failed(old) });
    let params =
        |rig: &Rig, run| rig.steps(run)["load"].params.clone().expect("own parameters").0.to_string();
    assert_eq!(params(&rig, run), r#"{"day":2,"kind":"all"}"#);
    rig.end_step(run, "load", End::Failed);
    rig.reload();
    // Like `params`, they are kept by the next retry.
    let again = made(&mut rig, from_failed(run));
    assert_eq!(params(&rig, again), r#"{"day":2,"kind":"all"}"#);
}

#[test]
fn a_retry_from_steps_that_cannot_be_is_refused() {
    let mut rig = Rig::new(4);
    let old = failed(&mut rig);
    let said = refused(&mut rig, from_steps(old, &["extract", "nobody"]));
    assert!(said.contains("from[1]: no step is named `nobody`; the steps are extract,"), "{said}");
    assert!(refused(&mut rig, from_steps(old, &[])).contains("from: names no step"));
    let later = RetryRun { due: Some(rig.now + Duration::from_secs(9)), ..from_failed(old) };
    assert!(refused(&mut rig, later).contains("due_at: lies in the future"));
    let given = |text: &str| Some(StepParams::from([(named("load"), Params(text.into()))]));
    let broken = RetryRun { step_params: given(r#"{"a": "{{ steps.settle.output }}"}"#), ..from_failed(old) };
    let said = refused(&mut rig, broken);
    assert!(said.starts_with("steps.load.params"), "{said}");
    let unknown = StepParams::from([(named("nobody"), Params::default())]);
    let said = refused(&mut rig, RetryRun { step_params: Some(unknown), ..from_failed(old) });
    assert!(said.starts_with("steps.nobody: no step is named"), "{said}");
    let step_run = rig.steps(old)["load"].id;
    assert!(refused(&mut rig, from_failed(step_run)).contains("it is a child of run"));
    let again = made(&mut rig, from_failed(old));
    assert!(refused(&mut rig, from_failed(again)).contains("only a run that has ended"));
    rig.finish(again);
    assert!(refused(&mut rig, from_failed(again)).contains("no step of it failed"));
    rig.ask(put("plain", Definition::of(Task::Noop))).unwrap();
    let plain = rig.start("plain");
    rig.report(plain, End::Succeeded);
    assert!(refused(&mut rig, from_failed(plain)).contains("is not a workflow"));
    rig.ask(put("flow", Definition::of(Task::Noop))).unwrap();
    assert!(refused(&mut rig, from_failed(old)).contains("from: the newest revision"));
}
