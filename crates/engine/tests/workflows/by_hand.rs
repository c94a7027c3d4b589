//! What people decide on a workflow: approvals, skips, cancels of steps, and pauses.

use punctual_core::Timestamp;
use punctual_core::command::{ActOnSteps, Refusal, StepsAct};
use punctual_core::limits::BY_HAND_MAX;
use punctual_core::run::What;

use super::*;

pub(super) fn act(run: RunId, act: StepsAct) -> Command {
    let (namespace, by, comment) = (Namespace::default(), Some("ops".into()), "as agreed".into());
    Command::ActOnSteps(ActOnSteps { namespace, run, act, by, comment })
}

pub(super) fn named(name: &str) -> punctual_core::name::Name {
    name.parse().expect("a valid name")
}

pub(super) fn approval(name: &str, needs: &[&str]) -> Step {
    Step { work: Work::Approve(Some(Duration::from_secs(60))), ..step(name, needs) }
}

#[test]
fn an_approval_lets_the_next_step_start_and_says_who_gave_it() {
    let mut rig = Rig::new(4);
    let run =
        rig.start_workflow(job(workflow(vec![approval("review", &[]), step("ship", &["review"])], vec![])));
    assert_eq!(rig.at_work(run), "");
    rig.reload();
    rig.ask(act(run, StepsAct::Approve(named("review")))).unwrap();
    assert_eq!(rig.at_work(run), "ship");
    let by_hand = rig.step_rows(run)[0].by_hand.clone().expect("a person decided");
    assert_eq!((by_hand.by.as_deref(), &*by_hand.comment, by_hand.at), (Some("ops"), "as agreed", rig.now));
    let again = rig.ask(act(run, StepsAct::Approve(named("review")))).unwrap_err();
    assert!(matches!(&again, Refusal::WrongStep { state, .. } if state == "succeeded"), "{again}");
    rig.advance("2m");
    rig.finish(run);
    assert_eq!(rig.rows_of(run), ["0 succeeded (approved)", "1 succeeded"]);
}

#[test]
fn a_rejection_fails_the_step_with_its_comment() {
    let mut rig = Rig::new(4);
    let run =
        rig.start_workflow(job(workflow(vec![approval("review", &[]), step("ship", &["review"])], vec![])));
    rig.ask(act(run, StepsAct::Reject(named("review")))).unwrap();
    assert_eq!((rig.status(run), rig.steps(run).len()), (Status::Failed, 0));
    assert_eq!(&*rig.run(run).error, "step `review`: rejected by ops: as agreed");
    assert_eq!(rig.rows_of(run), ["0 failed (rejected)", "1 skipped (skipped: rule)"]);
}

#[test]
fn a_step_that_has_not_started_or_waits_can_be_skipped() {
    let mut rig = Rig::new(4);
    let rest = Step { work: Work::Wait(Wait::For(Duration::from_secs(60))), ..step("rest", &[]) };
    let last = Step { rule: Rule::NoneFailed, ..step("last", &["rest", "b"]) };
    let run = rig.start_workflow(job(workflow(vec![step("a", &[]), rest, step("b", &["a"]), last], vec![])));
    rig.ask(act(run, StepsAct::Skip(named("b")))).unwrap();
    rig.reload();
    rig.ask(act(run, StepsAct::Skip(named("rest")))).unwrap();
    assert_eq!(rig.at_work(run), "a last");
    let started = rig.ask(act(run, StepsAct::Skip(named("a")))).unwrap_err();
    assert_eq!(started.to_string(), "step `a` is active: it has started; cancel it instead");
    rig.finish(run);
    let by_hand = "skipped (skipped: by hand)";
    assert_eq!(
        rig.rows_of(run),
        ["0 succeeded".to_owned(), format!("1 {by_hand}"), format!("2 {by_hand}"), "3 succeeded".to_owned()]
    );
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_cancel_of_a_step_stops_its_items_and_starts_no_more() {
    let mut rig = Rig::new(4);
    let steps = vec![mapped("load", &[], "[1, 2, 3, 4]", Some(2)), step("next", &["load"])];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(run, "load[0]", End::Succeeded);
    rig.ask(act(run, StepsAct::Cancel(named("load")))).unwrap();
    assert_eq!(rig.cancelled_orders().len(), 2);
    rig.reload();
    rig.end_step(run, "load[1]", End::Failed);
    rig.end_step(run, "load[2]", End::Failed);
    assert_eq!((rig.status(run), rig.steps(run).len()), (Status::Failed, 3));
    assert!(rig.step_rows(run).iter().any(|row| row.key.item.is_none() && row.by_hand.is_some()));
    assert_eq!(rig.pool.live_runs(), 0);
}

#[test]
fn a_paused_workflow_starts_no_step_until_it_is_resumed() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[]), step("b", &["a"])], vec![])));
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    assert!(rig.ask(act(run, StepsAct::Pause)).is_err());
    rig.end_step(run, "a", End::Succeeded);
    rig.reload();
    assert_eq!((rig.at_work(run), rig.status(run)), (String::new(), Status::Running));
    rig.ask(act(run, StepsAct::Resume)).unwrap();
    assert_eq!(rig.at_work(run), "b");
    assert!(rig.ask(act(run, StepsAct::Resume)).is_err());
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

/// A step whose sub-workflow has the steps `x` and `y`, one after the other.
fn nested(name: &str, needs: &[&str]) -> Step {
    let inner = workflow(vec![step("x", &[]), step("y", &["x"])], vec![]);
    Step { work: Work::Workflow(Box::new(inner)), ..step(name, needs) }
}

#[test]
fn a_pause_holds_the_sub_workflows_until_the_resume() {
    let mut rig = Rig::new(4);
    let middle = Work::Workflow(Box::new(workflow(vec![nested("deep", &[])], vec![])));
    let run = rig.start_workflow(job(workflow(vec![Step { work: middle, ..step("mid", &[]) }], vec![])));
    let mid = rig.steps(run)["mid"].id;
    let deep = rig.steps(mid)["mid/deep"].id;
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    rig.end_step(deep, "mid/deep/x", End::Succeeded);
    assert_eq!((rig.at_work(deep), rig.status(deep)), (String::new(), Status::Running));
    rig.reload();
    rig.advance("1m");
    assert_eq!(rig.steps(deep).len(), 1);
    rig.ask(act(run, StepsAct::Resume)).unwrap();
    assert_eq!(rig.at_work(deep), "mid/deep/y");
    rig.finish(deep);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_sub_workflow_is_paused_by_itself() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![nested("in", &[]), step("a", &[])], vec![])));
    let inner = rig.steps(run)["in"].id;
    rig.ask(act(inner, StepsAct::Pause)).unwrap();
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    rig.end_step(inner, "in/x", End::Succeeded);
    rig.ask(act(run, StepsAct::Resume)).unwrap();
    assert_eq!(rig.at_work(inner), "", "it has a pause of its own");
    rig.ask(act(inner, StepsAct::Resume)).unwrap();
    assert_eq!(rig.at_work(inner), "in/y");
}

#[test]
fn a_cancel_releases_what_the_pause_held_in_finally() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[])], vec![nested("clean", &[])])));
    rig.end_step(run, "a", End::Succeeded);
    let clean = rig.steps(run)["clean"].id;
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    rig.end_step(clean, "clean/x", End::Succeeded);
    assert_eq!(rig.at_work(clean), "");
    rig.ask(cancel(run)).unwrap();
    assert_eq!(rig.at_work(clean), "clean/y");
    rig.finish(clean);
    assert_eq!(rig.status(run), Status::Cancelled);
}

#[test]
fn who_paused_and_who_resumed_is_recorded() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[])], vec![])));
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    let paused_at = rig.now;
    rig.pass("1m");
    rig.ask(act(run, StepsAct::Resume)).unwrap();
    rig.finish(run);
    let run = rig.run(run);
    let told: Vec<(What, Timestamp)> =
        run.by_hand.iter().map(|(entry, by_hand)| (run.entries[*entry as usize].what, by_hand.at)).collect();
    assert_eq!(told, [(What::Paused, paused_at), (What::Resumed, paused_at + Duration::from_secs(60))]);
    assert!(run.by_hand.iter().all(|(_, by_hand)| by_hand.by.as_deref() == Some("ops")));
}

#[test]
fn the_newest_pauses_of_a_workflow_are_recorded() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[])], vec![])));
    for _ in 0..BY_HAND_MAX {
        rig.ask(act(run, StepsAct::Pause)).unwrap();
        rig.ask(act(run, StepsAct::Resume)).unwrap();
    }
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    let run = rig.run(run);
    assert!(run.paused_by().is_some());
    assert_eq!(run.by_hand.len(), BY_HAND_MAX);
}

#[test]
fn a_cancel_ends_a_paused_workflow() {
    let mut rig = Rig::new(4);
    let run =
        rig.start_workflow(job(workflow(vec![step("a", &[]), step("b", &["a"])], vec![step("clean", &[])])));
    rig.ask(act(run, StepsAct::Pause)).unwrap();
    rig.end_step(run, "a", End::Succeeded);
    rig.ask(cancel(run)).unwrap();
    assert_eq!(rig.at_work(run), "clean");
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Cancelled);
}

#[test]
fn a_decision_on_something_else_is_refused_and_changes_nothing() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[])], vec![])));
    let said = |rig: &mut Rig, run, ask| rig.ask(act(run, ask)).unwrap_err().to_string();
    assert!(said(&mut rig, run, StepsAct::Approve(named("nobody"))).contains("has no step `nobody`"));
    assert!(said(&mut rig, run, StepsAct::Approve(named("a"))).contains("only an `approve` step"));
    let step_run = rig.steps(run)["a"].id;
    assert!(said(&mut rig, step_run, StepsAct::Pause).contains("is not a workflow"));
    assert!(said(&mut rig, RunId(7), StepsAct::Pause).contains("no run"));
    rig.finish(run);
    assert!(said(&mut rig, run, StepsAct::Pause).contains("it has ended already"));
}
