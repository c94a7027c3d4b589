//! The faults: each changes a story so that one check must find it.

use std::sync::Arc;
use std::time::Duration;

use proptest::sample::Index;
use punctual_core::Timestamp;
use punctual_core::change::{Skip, SkipReason};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::progress::Resume;
use punctual_core::run::{Assignee, Origin, Run, Status, Trigger};
use punctual_core::schedule::Schedule;
use punctual_core::workflow::StepRecord;
use punctual_verify::Check;

use super::story::{Story, millisecond_before, revision_of};

/// The faults: each changes a story and says who must notice. `None` means that this story has no place for it.
pub(super) type Fault = fn(&mut Story, Index) -> Option<Check>;

pub(super) const FAULTS: [(&str, Fault); 37] = [
    ("a fire is lost", |story, place| {
        story.runs.remove(story.plain_run(place)?);
        Some(Check::NeverLost)
    }),
    ("every fire before an edit or a pause is lost", |story, _| {
        let before = story.runs.len();
        let (job, revision) = (story.job.id, story.job.revision);
        story.runs.retain(|run| run.job() != Some(job) || revision_of(run) == revision);
        (story.runs.len() < before).then_some(Check::NeverLost)
    }),
    ("a fire is hidden by the record of a later pause", |story, place| {
        let paused = story.skip_of(SkipReason::Paused, place)?;
        let pause = story.skips[paused].revision;
        let last = story.runs.iter().rposition(|run| {
            run.trigger == Trigger::Schedule && run.attempt > 0 && revision_of(run) == pause - 1
        })?;
        story.skips[paused].from = story.runs.remove(last).due;
        Some(Check::NeverLost)
    }),
    ("a missed fire is called a paused one", |story, place| {
        let missed = story.skip_of(SkipReason::Misfire, place)?;
        story.skips[missed].reason = SkipReason::Paused;
        Some(Check::NeverLost)
    }),
    ("a missed fire is called an excluded one", |story, place| {
        let missed = story.skip_of(SkipReason::Misfire, place)?;
        story.skips[missed].reason = SkipReason::Calendar;
        Some(Check::NeverLost)
    }),
    ("a paused job fires", |story, place| {
        let skip = story.skips[story.skip_of(SkipReason::Paused, place)?].clone();
        story.add_fire(skip.from, skip.revision)?;
        Some(Check::OnSchedule)
    }),
    ("a job fires after the edit that dropped the due time", |story, place| {
        let skip = story.skips[story.skip_of(SkipReason::Edited, place)?].clone();
        story.add_fire(skip.from, skip.revision)?;
        Some(Check::NeverTwice)
    }),
    ("a job fires on a day that its calendar excludes", |story, place| {
        let skip = story.skips[story.skip_of(SkipReason::Calendar, place)?].clone();
        story.add_fire(skip.from, skip.revision)?;
        Some(Check::OnSchedule)
    }),
    ("a revision is lost", |story, place| {
        (!story.revisions.is_empty()).then(|| story.revisions.remove(place.index(story.revisions.len())))?;
        Some(Check::Accounted)
    }),
    ("a child run is made twice", |story, place| {
        let children: Vec<usize> =
            (0..story.runs.len()).filter(|place| story.runs[*place].parent().is_some()).collect();
        let mut child = story.runs[*children.get(place.index(children.len().max(1)))?].clone();
        child.id.0 += 10_000;
        story.runs.push(child);
        Some(Check::Family)
    }),
    ("a step is decided before the one that it needs", |story, place| {
        let flow = story.flow_at(place)?;
        flow[1].decided_at = millisecond_before(flow[0].decided_at);
        Some(Check::Workflow)
    }),
    ("a step is forgotten", |story, place| {
        story.flow_at(place)?.pop();
        Some(Check::Workflow)
    }),
    ("the row of a part is forgotten", |story, place| {
        (!story.splits.is_empty()).then_some(())?;
        let split = place.index(story.splits.len());
        story.splits[split].pop();
        Some(Check::Workflow)
    }),
    ("a job follows a run twice", |story, place| {
        let mut run = story.runs[story.run_with(Trigger::After, place)?].clone();
        run.id.0 += 10_000;
        story.runs.push(run);
        Some(Check::Links)
    }),
    ("a job that follows is not started", |story, _| {
        story.runs.remove(story.started_between_others()?);
        Some(Check::Links)
    }),
    ("a step starts a job twice", |story, place| {
        let mut run = story.runs[story.run_with(Trigger::Workflow, place)?].clone();
        run.id.0 += 10_000;
        story.runs.push(run);
        Some(Check::Links)
    }),
    ("a run follows a run that never was", |story, place| {
        let run = story.run_with(Trigger::After, place)?;
        let upstream = story.runs[run].started_by()?;
        // Before the first run, the history could have had more.
        (story.runs.first()?.id != upstream).then_some(())?;
        story.runs.retain(|run| run.id != upstream);
        Some(Check::Links)
    }),
    ("the run that a step has started is lost", |story, place| {
        story.runs.remove(story.run_with(Trigger::Workflow, place)?);
        Some(Check::Links)
    }),
    ("a run names another step as the one that started it", |story, place| {
        let run = story.run_with(Trigger::Workflow, place)?;
        story.runs[run].link.as_mut()?.caller.as_mut()?.run = RunId(99);
        Some(Check::Links)
    }),
    ("everything is lost", |story, _| {
        story.runs.clear();
        Some(Check::NotVacuous)
    }),
    ("a skip record is lost", |story, place| {
        (!story.skips.is_empty()).then(|| story.skips.remove(place.index(story.skips.len())))?;
        Some(Check::NeverLost)
    }),
    ("a skip record ends too soon", |story, place| {
        (!story.skips.is_empty()).then_some(())?;
        let place = place.index(story.skips.len());
        story.skips[place].to = millisecond_before(story.skips[place].to);
        Some(Check::NeverLost)
    }),
    ("a plan passes over a due time", |story, _| {
        let next = story.job.cursor.next_due?;
        story.job.plan_after(next);
        Some(Check::NeverLost)
    }),
    ("a fire is made twice", |story, place| {
        let mut run = story.runs[story.fire(place)].clone();
        run.id.0 += 10_000;
        story.runs.push(run);
        Some(Check::NeverTwice)
    }),
    ("a fire was recorded as skipped", |story, place| {
        let fire = &story.runs[story.fire(place)];
        let (due, revision) = (fire.due, revision_of(fire));
        let (job, reason) = (story.job.id, SkipReason::Misfire);
        story.skips.push(Skip { job, revision, from: due, to: due, reason, at: due });
        Some(Check::NeverTwice)
    }),
    ("a cursor lags behind", |story, _| {
        let fires = story.runs.iter().filter(|run| run.trigger == Trigger::Schedule);
        let last = fires.map(|run| run.due).max()?;
        story.job.cursor.fired_through = millisecond_before(last);
        Some(Check::Accounted)
    }),
    ("a run starts too early", |story, place| {
        let place = story.plain_run(place)?;
        let run = &mut story.runs[place];
        for entry in &mut run.entries {
            entry.at = millisecond_before(run.due);
        }
        run.finished_at = run.entries.last().map(|entry| entry.at);
        Some(Check::NeverEarly)
    }),
    ("a due time is the moment of firing", |story, place| {
        let place = story.fire(place);
        let moved = story.runs[place].due + Duration::from_millis(1);
        let schedules = story.definitions().map(|definition| &definition.schedules[0]);
        let is_named = |schedule: &Schedule| schedule.previous(moved, story.job.created_at) == Some(moved);
        (!schedules.into_iter().any(is_named)).then_some(())?;
        story.runs[place].due = moved;
        Some(Check::OnSchedule)
    }),
    ("an event is lost", |story, place| {
        let run = place.index(story.runs.len());
        let entries = &mut story.runs[run].entries;
        entries.remove(place.index(entries.len() - 1));
        Some(Check::LegalStates)
    }),
    ("a run moves after its end", |story, place| {
        let run = place.index(story.runs.len());
        let run = &mut story.runs[run];
        let last = run.entries.last()?.clone();
        run.entries.push(last);
        Some(Check::LegalStates)
    }),
    ("two results are accepted", |story, place| {
        let run = story.plain_run(place)?;
        let run = &mut story.runs[run];
        let last = run.entries.last()?.clone();
        run.entries.push(last);
        Some(Check::OneResult)
    }),
    ("an outdated token reports", |story, place| {
        let run = story.plain_run(place)?;
        let last = story.runs[run].entries.last_mut()?;
        last.token = Token(last.token.0 - 1);
        Some(Check::OneResult)
    }),
    ("a run that may start once starts twice", |story, place| {
        let run = story.plain_run(place)?;
        let run = &mut story.runs[run];
        let starts = run.entries.iter().filter(|entry| entry.to == Status::Running).count();
        (starts > 1).then_some(())?;
        Arc::make_mut(&mut story.job.definition).at_most_once = true;
        for revision in &mut story.revisions {
            Arc::make_mut(&mut revision.definition).at_most_once = true;
        }
        Some(Check::AtMostOnce)
    }),
    ("the attempt after a loss starts without the checkpoint", |story, place| {
        story.resume(place)?.given = None;
        Some(Check::Checkpoint)
    }),
    ("the attempt after a loss starts at an older checkpoint", |story, place| {
        let given = story.resume(place)?.given.as_mut()?;
        given.seq = given.seq.map(|seq| seq - 1);
        Some(Check::Checkpoint)
    }),
    ("two runs of a job run side by side", |story, place| {
        let first = story.plain_run(place)?;
        let plain = |run: &&Run| run.trigger == Trigger::Schedule && run.attempt > 0;
        let next = story.runs[first + 1..]
            .iter()
            .find(plain)?
            .entries
            .iter()
            .find(|entry| entry.to == Status::Running)?
            .at;
        let run = &mut story.runs[first];
        run.entries.last_mut()?.at = next + Duration::from_millis(1);
        run.finished_at = Some(next + Duration::from_millis(1));
        Some(Check::Overlap)
    }),
    ("a run hangs", |story, place| {
        let run = story.plain_run(place)?;
        let run = &mut story.runs[run];
        run.entries.pop();
        run.finished_at = None;
        run.state = punctual_core::run::State::Running {
            assignee: Assignee::Worker(WorkerId(Arc::from("w"))),
            token: run.token,
            since: run.due,
            cancelling: None,
        };
        Some(Check::Ended)
    }),
];

/// The places in a story for the faults.
impl Story {
    /// A run with this trigger.
    fn run_with(&self, trigger: Trigger, place: Index) -> Option<usize> {
        let runs: Vec<usize> =
            (0..self.runs.len()).filter(|place| self.runs[*place].trigger == trigger).collect();
        (!runs.is_empty()).then(|| runs[place.index(runs.len())])
    }

    /// A run of the schedule without child runs.
    fn plain_run(&self, place: Index) -> Option<usize> {
        let is_plain = |run: &Run| run.trigger == Trigger::Schedule && run.attempt > 0;
        let plain: Vec<usize> = (0..self.runs.len()).filter(|place| is_plain(&self.runs[*place])).collect();
        (!plain.is_empty()).then(|| plain[place.index(plain.len())])
    }

    fn fire(&self, place: Index) -> usize {
        let fires = (0..self.runs.len()).filter(|place| self.runs[*place].trigger == Trigger::Schedule);
        let fires: Vec<usize> = fires.collect();
        fires[place.index(fires.len())]
    }

    /// What an attempt after a lost one was given.
    fn resume(&mut self, place: Index) -> Option<&mut Resume> {
        let resumes = self.runs.iter_mut().filter_map(|run| run.resumes.as_mut()?.starts.last_mut());
        let mut resumes: Vec<_> = resumes.collect();
        (!resumes.is_empty()).then(|| resumes.swap_remove(place.index(resumes.len())))
    }

    /// The rows of a workflow.
    fn flow_at(&mut self, place: Index) -> Option<&mut Vec<StepRecord>> {
        let len = self.flows.len();
        (len > 0).then(|| &mut self.flows[place.index(len)])
    }

    fn skip_of(&self, reason: SkipReason, place: Index) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.skips.len()).filter(|place| self.skips[*place].reason == reason).collect();
        (!fitting.is_empty()).then(|| fitting[place.index(fitting.len())])
    }

    fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.revisions.iter().map(|revision| &*revision.definition).chain([&*self.job.definition])
    }

    /// Adds a fire at a due time that the schedule does not have: a copy of another fire.
    fn add_fire(&mut self, due: Timestamp, revision: u32) -> Option<()> {
        let mut run =
            self.runs.iter().find(|run| run.trigger == Trigger::Schedule && run.attempt > 0)?.clone();
        run.id.0 += 10_000;
        run.due = due;
        if let Origin::Job { revision: of, .. } = &mut run.origin {
            *of = revision;
        }
        self.runs.push(run);
        Some(())
    }
}
