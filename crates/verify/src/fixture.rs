//! A small story of one job, told through core's own types, for the tests of the checks.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::change::{Revision, Skip, SkipReason};
use punctual_core::ids::{Epoch, JobId, RunId, WorkerId};
use punctual_core::job::{Cursor, Definition, Job, Pause};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::run::{Event, Origin, Part, PartOf, Run, StepOf, StepsEnd, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_core::workflow::{
    Items, Rule, Skip as SkipStep, State as StepState, Step, StepKey, StepRecord, Work, Workflow,
};

use crate::checks::Check;
use crate::history::History;
use crate::options::Options;

/// An instant, in seconds.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) job: Job,
    /// All but the newest.
    pub(crate) revisions: Vec<Revision>,
    pub(crate) runs: Vec<Run>,
    pub(crate) skips: Vec<Skip>,
    /// The workflow that its last fire executes, and the rows of its steps.
    pub(crate) workflow: Workflow,
    pub(crate) steps: Vec<StepRecord>,
}

impl Story {
    /// A job made at 0, due at 10, 20, 30 and so on.
    pub(crate) fn every_ten_seconds() -> Story {
        let schedules = vec![Schedule::new(When::Every(Duration::from_secs(10)))];
        let mut job = Job {
            id: JobId(1),
            namespace: Namespace::default(),
            name: "beat".parse().unwrap(),
            revision: 1,
            definition: Arc::new(Definition { schedules, ..Definition::of(Task::Noop) }),
            pause: None,
            failures: 0,
            watch: None,
            created_at: at(0),
            updated_at: at(0),
            cursor: Cursor::default(),
        };
        job.plan_after(at(0));
        let workflow = Workflow { steps: Vec::new(), finally: Vec::new(), output: None };
        Story { job, revisions: Vec::new(), runs: Vec::new(), skips: Vec::new(), workflow, steps: Vec::new() }
    }

    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut Definition)) {
        edit(Arc::make_mut(&mut self.job.definition));
        self.job.plan_after(self.job.cursor.fired_through);
    }

    /// The schedule is replaced; what was planned is on record as dropped.
    pub(crate) fn reschedule(&mut self, now: i64, when: When) -> &mut Story {
        let planned = self.job.cursor.next_due;
        self.revise(now, |job| {
            Arc::make_mut(&mut job.definition).schedules = vec![Schedule::new(when)];
            job.plan_after(at(now));
        });
        if let Some(due) = planned.filter(|due| !self.job.is_due_at(*due)) {
            let (job, revision, reason) = (self.job.id, self.job.revision - 1, SkipReason::Edited);
            self.skips.push(Skip { job, revision, from: due, to: due, reason, at: at(now) });
        }
        self
    }

    pub(crate) fn pause(&mut self, now: i64) -> &mut Story {
        self.revise(now, |job| {
            job.pause(Pause { reason: Box::default(), by: None, since: at(now), until: None });
        })
    }

    pub(crate) fn resume(&mut self, now: i64) -> &mut Story {
        self.revise(now, |job| {
            job.pause = None;
            job.plan_after(at(now));
        })
    }

    /// The job gets another revision; the one before it ends.
    pub(crate) fn revise(&mut self, now: i64, change: impl FnOnce(&mut Job)) -> &mut Story {
        let Job { id: job, revision, updated_at, .. } = self.job;
        let definition = Arc::clone(&self.job.definition);
        self.revisions.push(Revision { job, revision, definition, at: updated_at, state: self.job.state() });
        self.job.revision += 1;
        self.job.updated_at = at(now);
        change(&mut self.job);
        self
    }

    /// A fire that succeeds one second later.
    pub(crate) fn fire(&mut self, due: i64) -> &mut Story {
        self.run_of(Trigger::Schedule, due)
    }

    /// A run that succeeds one second later.
    pub(crate) fn run_of(&mut self, trigger: Trigger, due: i64) -> &mut Story {
        let run = self.born(trigger, due);
        assign(run, due);
        let outcome = Outcome::succeeded(at(due));
        tell(run, Event::Reported { token: run.token, outcome }, due + 1);
        self
    }

    /// A fire that is split into so many children, which all succeed one second later.
    pub(crate) fn fire_split(&mut self, due: i64, total: u32) -> &mut Story {
        let place = self.runs.len();
        let parent = self.born(Trigger::Schedule, due).id;
        let mut whole = StepRecord::of_parts(parent, total, Box::default(), at(due));
        whole.end(StepState::Succeeded, None, at(due + 1));
        whole.items = Some(Items { total, succeeded: total, failed: 0 });
        (self.workflow, self.steps) = (Workflow::of_parts().clone(), vec![whole]);
        for index in 0..total {
            self.run_of(Trigger::Parent, due);
            let child = self.runs.last_mut().unwrap();
            let part = Part { index, total };
            child.part_of = Some(Box::new(PartOf { parent, part, worker: None }));
            let key = StepKey { run: parent, step: 0, item: Some(index) };
            let mut row = StepRecord { child: Some(child.id), ..StepRecord::active(key, at(due)) };
            row.end(StepState::Succeeded, None, at(due + 1));
            self.steps.push(row);
        }
        let run = &mut self.runs[place];
        tell(run, Event::Due, due);
        let mut definition = Definition::of(Task::Noop);
        definition.route.shards = Some(total);
        run.apply(Event::StepsBegun, &definition, at(due)).unwrap();
        run.apply(end_of_steps(), &definition, at(due + 1)).unwrap();
        self
    }

    /// A fire that executes a workflow: `a` for one second, then `b` for another; `alarm` is skipped, and `clean` comes
    /// last. The first worker of `a` may vanish.
    pub(crate) fn fire_workflow(&mut self, due: i64, loses_worker: bool) -> &mut Story {
        let step = |name: &str, needs: &[&str]| Step {
            needs: needs.iter().map(|name| name.parse().unwrap()).collect(),
            ..Step::of(name.parse().unwrap(), Work::Task(Task::Noop))
        };
        let alarm = Step { rule: Rule::AnyFailed, ..step("alarm", &["a"]) };
        self.workflow.steps = vec![step("a", &[]), step("b", &["a"]), alarm];
        self.workflow.finally = vec![step("clean", &[])];
        let place = self.runs.len();
        let parent = self.born(Trigger::Schedule, due).id;
        for (number, name, from) in [(0, "a", due), (1, "b", due + 1), (3, "clean", due + 2)] {
            let child = self.born(Trigger::Parent, from);
            child.step = Some(Box::new(StepOf { parent, step: number, path: name.into(), item: None }));
            assign(child, from);
            if loses_worker && name == "a" {
                tell(child, Event::Lost { token: child.token }, from);
                assign(child, from);
            }
            let outcome = Outcome::succeeded(at(from));
            tell(child, Event::Reported { token: child.token, outcome }, from + 1);
            let key = StepKey { run: parent, step: number, item: None };
            let mut row = StepRecord { child: Some(child.id), ..StepRecord::active(key, at(from)) };
            row.end(StepState::Succeeded, None, at(from + 1));
            self.steps.push(row);
        }
        let skipped = StepKey { run: parent, step: 2, item: None };
        self.steps.insert(2, StepRecord::skipped(skipped, SkipStep::Rule, at(due + 1)));
        let definition = Definition::of(Task::Workflow(Box::new(self.workflow.clone())));
        let run = &mut self.runs[place];
        tell(run, Event::Due, due);
        run.apply(Event::StepsBegun, &definition, at(due)).unwrap();
        run.apply(end_of_steps(), &definition, at(due + 3)).unwrap();
        self
    }

    /// The run of a step of the workflow.
    pub(crate) fn run_of_step(&mut self, name: &str) -> &mut Run {
        let is_of = |run: &&mut Run| run.step.as_ref().is_some_and(|step| &*step.path == name);
        self.runs.iter_mut().find(is_of).unwrap()
    }

    /// A fire whose first worker vanishes after two checkpoints and whose second one succeeds.
    pub(crate) fn fire_and_lose(&mut self, due: i64) -> &mut Story {
        self.fire_and_lose_times(due, 1)
    }

    /// The same, with so many workers that vanish. Only the first one stores checkpoints.
    pub(crate) fn fire_and_lose_times(&mut self, due: i64, times: u32) -> &mut Story {
        let run = self.born(Trigger::Schedule, due);
        assign(run, due);
        checkpoint_twice(run, due);
        for _ in 0..times {
            tell(run, Event::Lost { token: run.token }, due + 1);
            assign(run, due + 1);
        }
        let outcome = Outcome::succeeded(at(due + 1));
        tell(run, Event::Reported { token: run.token, outcome }, due + 2);
        self
    }

    /// A fire whose first attempt fails after two checkpoints and whose second one succeeds.
    pub(crate) fn fire_and_fail(&mut self, due: i64) -> &mut Story {
        let definition = Arc::clone(&self.job.definition);
        let run = self.born(Trigger::Schedule, due);
        assign(run, due);
        checkpoint_twice(run, due);
        let outcome = Outcome::failed(at(due), "it broke");
        let failed = Event::Reported { token: run.token, outcome };
        run.apply(failed, &definition, at(due + 1)).unwrap();
        assign(run, due + 1);
        let outcome = Outcome::succeeded(at(due + 1));
        tell(run, Event::Reported { token: run.token, outcome }, due + 2);
        self
    }

    /// A fire that is running and has not ended.
    pub(crate) fn start(&mut self, due: i64) -> &mut Story {
        assign(self.born(Trigger::Schedule, due), due);
        self
    }

    /// A fire that waits for its time.
    pub(crate) fn planned(&mut self, due: i64) -> &mut Run {
        self.born(Trigger::Schedule, due)
    }

    pub(crate) fn skip(&mut self, from: i64, to: i64) -> &mut Story {
        self.skip_for(SkipReason::Misfire, from, to)
    }

    pub(crate) fn skip_for(&mut self, reason: SkipReason, from: i64, to: i64) -> &mut Story {
        let (from, to) = (at(from), at(to));
        let (job, revision) = (self.job.id, self.job.revision);
        self.skips.push(Skip { job, revision, from, to, reason, at: to });
        if reason != SkipReason::Calendar {
            self.carried_out(to);
        }
        self
    }

    fn born(&mut self, trigger: Trigger, due: i64) -> &mut Run {
        let due = at(due);
        if matches!(trigger, Trigger::Schedule | Trigger::Misfire) {
            self.job.count_fire(due);
            self.carried_out(due);
        }
        let Job { id, name, revision, namespace, .. } = &self.job;
        let origin = Origin::Job { id: *id, name: name.clone(), revision: *revision };
        let run = RunId(100 + i64::try_from(self.runs.len()).unwrap());
        self.runs.push(Run::new(run, namespace.clone(), origin, trigger, due, due));
        self.runs.last_mut().unwrap()
    }

    fn carried_out(&mut self, due: Timestamp) {
        let fired_through = self.job.cursor.fired_through.max(due);
        self.job.cursor.fired_through = fired_through;
        if !self.job.is_paused() {
            self.job.plan_after(fired_through);
        }
    }

    pub(crate) fn history(&self) -> History {
        let mut history = History::new();
        history.add_job(&self.job);
        self.revisions.iter().for_each(|revision| history.add_revision(revision));
        self.runs.iter().for_each(|run| history.add_run(run));
        self.skips.iter().for_each(|skip| history.add_skip(skip));
        if let Some(run) = self.steps.first().map(|step| step.key.run) {
            history.add_workflow(run, &self.workflow, &self.steps);
        }
        history
    }

    /// Nothing moves in a story, and its clock is exact.
    pub(crate) fn options() -> Options {
        Options { still: true, ..Options::default() }
    }

    #[track_caller]
    pub(crate) fn holds(&self) {
        let report = self.history().check(&Story::options());
        assert!(report.is_ok(), "{report}");
    }

    /// The check has something to say, and says it in these words.
    #[track_caller]
    pub(crate) fn breaks(&self, check: Check, words: &str) {
        let report = self.history().check(&Story::options());
        assert!(report.of(check).any(|finding| finding.message.contains(words)), "{report}");
    }
}

fn assign(run: &mut Run, now: i64) {
    tell(run, Event::Due, now);
    let token = run.token.next(Epoch(1));
    tell(run, Event::Assigned { worker: WorkerId(Arc::from("w")), token }, now);
}

fn checkpoint_twice(run: &mut Run, now: i64) {
    for row in 1..=2_u64 {
        let checkpoint = Some(row.to_string().into());
        assert!(run.report(Progress { checkpoint, seq: Some(row), ..Progress::default() }, at(now)));
    }
}

fn tell(run: &mut Run, event: Event, now: i64) {
    run.apply(event, &Definition::of(Task::Noop), at(now)).unwrap();
}

/// All child runs of a run have succeeded.
fn end_of_steps() -> Event {
    Event::StepsEnded { end: StepsEnd::Succeeded, output: Box::default() }
}
