//! Steps that start a run of another job, which may belong to another shard.

use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::limits::CHAIN_MAX;
use punctual_core::run::Trigger;

use super::*;
use crate::support::{manual, name};

/// Two shards, which have one of the two jobs each.
fn rig() -> Rig {
    let mut rig = Rig::with(2, 4, punctual_engine::Settings::default());
    rig.put(&settle(), Definition { params: Params(r#"{"bank":"a","day":"?"}"#.into()), ..manual() });
    rig
}

/// A job of another shard than the workflow.
fn settle() -> String {
    let shard_of = |job: &str| punctual_core::job::shard_of(&Namespace::default(), &name(job), 2);
    let mut names = (0..).map(|number| format!("settle-{number}"));
    names.find(|job| shard_of(job) != shard_of("flow")).expect("there are many names")
}

/// A workflow that starts the job, and then has a step that sees its output.
fn calling(job_name: &str) -> Definition {
    let params = Params(r#"{"day":"{{ due | date }}"}"#.into());
    let call = Step { params, ..Step::of(name("settle"), Work::Job(name(job_name))) };
    let when = Some("steps.settle.output.rows > 2".to_owned());
    let report = Step { when, ..step("report", &["settle"]) };
    job(workflow(vec![call, report], vec![]))
}

impl Rig {
    /// The only run of the job that the step starts.
    #[track_caller]
    fn called(&self) -> Arc<Run> {
        let mut runs = self.runs(&settle());
        assert_eq!(runs.len(), 1, "it is started once");
        runs.remove(0)
    }

    fn settled(&mut self, output: &str) {
        let run = self.called();
        let outcome = Outcome { output: output.into(), ..Outcome::succeeded(self.now) };
        self.report_outcome(run.id, run.token, outcome);
    }
}

#[test]
fn a_step_starts_a_job_and_takes_its_output() {
    let mut rig = rig();
    let run = rig.start_workflow(calling(&settle()));
    rig.run_requests();
    rig.advance("2s");
    let (called, waiting) = (rig.called(), &rig.steps(run)["settle"]);
    assert_eq!((called.trigger, called.started_by()), (Trigger::Workflow, Some(waiting.id)));
    let day = waiting.due.to_string()[..10].to_owned();
    assert_eq!(called.params, Some(Params(format!(r#"{{"bank":"a","day":"{day}"}}"#).into())));
    assert_eq!((called.key.clone(), waiting.called()), (None, Some(called.id)));
    assert_eq!(waiting.assignee.as_ref().map(ToString::to_string), Some(format!("job {}", settle())));
    rig.settled(r#"{"rows": 3}"#);
    assert_eq!(rig.at_work(run), "settle", "the workflow has not heard of the end yet");
    rig.run_requests();
    assert_eq!(rig.at_work(run), "report");
    rig.end_step(run, "report", End::Succeeded);
    assert_eq!(rig.status(run), Status::Succeeded);
    assert!(rig.message_rows().is_empty(), "no notice is left");
}

#[test]
fn a_job_that_fails_or_does_not_exist_fails_the_step() {
    let mut rig = rig();
    let run = rig.start_workflow(calling(&settle()));
    rig.run_requests();
    let called = rig.called().id;
    rig.fail(called);
    rig.run_requests();
    let error = format!("step `settle`: run {called} of job `{}` is failed: it broke", settle());
    assert_eq!((rig.status(run), rig.run(run).error.as_ref()), (Status::Failed, error.as_str()));
    let none = rig.start_workflow(calling("nobody"));
    rig.run_requests();
    assert_eq!(rig.run(none).error.as_ref(), "step `settle`: no job `nobody` in namespace `default`");
}

#[test]
fn a_call_that_is_repeated_starts_one_run() {
    let mut rig = rig();
    let run = rig.start_workflow(calling(&settle()));
    let requests = rig.requests();
    requests.iter().chain(&requests).for_each(|request| rig.run_request(request.clone()));
    rig.settled("{}");
    let notices = rig.requests();
    notices.iter().chain(&notices).for_each(|request| rig.run_request(request.clone()));
    requests.into_iter().for_each(|request| rig.run_request(request));
    rig.called();
    assert_eq!(rig.steps(run)["settle"].status(), Status::Succeeded);
}

#[test]
fn a_crash_at_any_moment_loses_no_call() {
    for crash in 0..4 {
        let mut rig = rig();
        let run = rig.start_workflow(calling(&settle()));
        let crash_at = |rig: &mut Rig, moment: u32| {
            if moment == crash {
                rig.effects.clear();
                rig.reload();
                rig.join(4);
            }
        };
        crash_at(&mut rig, 0);
        rig.run_requests();
        crash_at(&mut rig, 1);
        rig.run_requests();
        rig.settled(r#"{"rows": 3}"#);
        crash_at(&mut rig, 2);
        // A page of timers brings the notices after a load.
        rig.advance("1s");
        rig.run_requests();
        crash_at(&mut rig, 3);
        assert_eq!(rig.steps(run)["settle"].status(), Status::Succeeded, "after a crash at {crash}");
        rig.called();
        assert!(rig.steps(run).contains_key("report"));
    }
}

#[test]
fn a_cancelled_workflow_cancels_the_run_it_started() {
    let mut rig = rig();
    let run = rig.start_workflow(calling(&settle()));
    rig.run_requests();
    rig.ask(cancel(run)).expect("it is running");
    assert_eq!((rig.status(run), rig.called().cancelling()), (Status::Running, None));
    rig.run_requests();
    let called = rig.called();
    assert!(called.cancelling().is_some());
    rig.report(called.id, End::Failed);
    rig.run_requests();
    assert_eq!((rig.status(run), rig.called().status()), (Status::Cancelled, Status::Cancelled));
}

#[test]
fn a_call_that_comes_after_the_cancel_starts_nothing() {
    let mut rig = rig();
    let run = rig.start_workflow(calling(&settle()));
    let late = rig.requests();
    assert!(matches!(late[..], [CrossShardRequest::Call { .. }]), "{late:?}");
    rig.ask(cancel(run)).expect("it is running");
    rig.run_requests();
    assert_eq!(rig.status(run), Status::Cancelled);
    late.into_iter().for_each(|request| rig.run_request(request));
    assert!(rig.runs(&settle()).is_empty());
}

#[test]
fn jobs_that_start_each_other_end_with_chain_too_long() {
    let mut rig = rig();
    rig.start_workflow(Definition { overlap: Overlap::Allow, ..calling("flow") });
    rig.run_requests();
    let runs = rig.runs("flow").into_iter().filter(|run| run.step.is_none());
    let runs: Vec<Arc<Run>> = runs.collect();
    assert_eq!(runs.len(), CHAIN_MAX as usize + 1);
    assert!(runs.iter().all(|run| run.status() == Status::Failed));
    let last = runs.iter().max_by_key(|run| run.depth()).expect("there are runs");
    assert_eq!((last.depth(), last.error.contains("chain_too_long")), (CHAIN_MAX, true), "{}", last.error);
}
