//! The recorded history of jobs and runs.
//!
//! It is built from the lines of an export, or from core's types. Runs, jobs and skips may come in any order; checks
//! begin when all are there. A run may be read twice if it changed during the export: the newer reading is kept.

mod line;
mod record;
mod rules;
mod workflow;

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::change::{Revision, Skip, SkipReason};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Job, Overlap, State};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::Resume;
use punctual_core::run::Run;
use punctual_core::workflow::{StepRecord, Workflow};
use rustc_hash::FxHashMap;

pub use line::BadLine;
pub use record::{EventRecord, JobRecord, JobRef, Lane, RevisionRecord, RunRecord, SkipRecord, StatsRecord};
pub use rules::{Follows, Rules};
pub use workflow::{StepRow, WorkflowRecord};

use crate::checks;
use crate::options::Options;
use crate::report::{Counted, Report};

#[derive(Debug, Clone, Default)]
pub struct History {
    pub(crate) runs: BTreeMap<RunId, RunRecord>,
    /// Ordered by their numbers.
    pub(crate) events: FxHashMap<RunId, Vec<EventRecord>>,
    /// By the token of the attempt.
    pub(crate) resumes: BTreeMap<(RunId, Token), Resume>,
    pub(crate) jobs: BTreeMap<JobId, JobRecord>,
    named: FxHashMap<(Namespace, Name), JobId>,
    /// By job and revision, ordered by their first due times.
    pub(crate) skips: BTreeMap<(JobId, u32), Vec<SkipRecord>>,
    pub(crate) revisions: BTreeMap<(JobId, u32), RevisionRecord>,
    /// By the run of the workflow. Workflows whose steps have not begun are not here.
    pub(crate) workflows: BTreeMap<RunId, WorkflowRecord>,
    pub(crate) steps: BTreeMap<workflow::StepPlace, StepRow>,
    pub(crate) stats: Option<StatsRecord>,
    lines: u64,
}

impl History {
    pub fn new() -> History {
        History::default()
    }

    /// Builds a history from the lines of an export.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<History, BadLine> {
        let mut history = History::new();
        lines.into_iter().try_for_each(|line| history.add_line(line))?;
        Ok(history)
    }

    /// Adds one line of an export. Blank lines and types that no check needs are ignored.
    pub fn add_line(&mut self, text: &str) -> Result<(), BadLine> {
        self.lines += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        line::add(self, text).map_err(|what| BadLine { number: self.lines, what })
    }

    /// Adds a stored run with its events. Adding a run again with different events leads to a finding: build a new
    /// history for each snapshot.
    pub fn add_run(&mut self, run: &Run) {
        for event in EventRecord::all_of(run) {
            self.add_event(event);
        }
        for resume in run.resumes.iter().flat_map(|resumes| &resumes.starts) {
            self.add_resume(run.id, *resume);
        }
        self.add_run_record(run.into());
    }

    pub fn add_job(&mut self, job: &Job) {
        self.add_job_record(job.into());
    }

    /// Adds a deleted job in its last state: see [`DeletedJob::as_job`](punctual_core::change::DeletedJob::as_job).
    pub fn add_deleted_job(&mut self, job: &Job) {
        self.add_job_record(JobRecord { state: State::Deleted, ..job.into() });
    }

    pub fn add_skip(&mut self, skip: &Skip) {
        self.add_skip_record(skip.into());
    }

    /// Adds a revision of a job, so that its due times are checked by its rules.
    pub fn add_revision(&mut self, revision: &Revision) {
        self.add_revision_record(revision.into());
    }

    /// Adds the workflow of a run and the rows of its steps.
    pub fn add_workflow<'a>(
        &mut self,
        run: RunId,
        workflow: &Workflow,
        rows: impl IntoIterator<Item = &'a StepRecord>,
    ) {
        for row in rows {
            let step = usize::try_from(row.key.step).ok().and_then(|index| workflow.step(index));
            if let Some(step) = step {
                self.steps.insert((run, step.name.clone(), row.key.item), row.into());
            }
        }
        self.workflows.extend(WorkflowRecord::of(workflow).map(|workflow| (run, workflow)));
    }

    pub(crate) fn add_run_record(&mut self, run: RunRecord) {
        let is_older = self.runs.get(&run.id).is_some_and(|kept| kept.status.is_terminal());
        if !is_older {
            self.runs.insert(run.id, run);
        }
    }

    pub(crate) fn add_job_record(&mut self, job: JobRecord) {
        if job.state != State::Deleted {
            self.named.insert((job.namespace.clone(), job.name.clone()), job.id);
        }
        self.revisions.entry((job.id, job.revision)).or_insert_with(|| (&job).into());
        self.jobs.insert(job.id, job);
    }

    pub(crate) fn add_revision_record(&mut self, revision: RevisionRecord) {
        self.revisions.insert((revision.job, revision.revision), revision);
    }

    pub(crate) fn add_skip_record(&mut self, skip: SkipRecord) {
        let skips = self.skips.entry((skip.job, skip.revision)).or_default();
        let place = skips.partition_point(|other| other.from < skip.from);
        if skips.get(place) != Some(&skip) {
            skips.insert(place, skip);
        }
    }

    /// A run that was read twice repeats its events: identical events are kept once, different ones are kept side by
    /// side.
    pub(crate) fn add_event(&mut self, event: EventRecord) {
        let events = self.events.entry(event.run).or_default();
        let place = events.partition_point(|other| other.seq <= event.seq);
        let known = events[..place].iter().rev().take_while(|other| other.seq == event.seq);
        if !known.into_iter().any(|other| *other == event) {
            events.insert(place, event);
        }
    }

    pub(crate) fn add_resume(&mut self, run: RunId, resume: Resume) {
        self.resumes.insert((run, resume.token), resume);
    }

    pub fn check(&self, options: &Options) -> Report {
        checks::all(self, options)
    }

    pub fn counted(&self) -> Counted {
        Counted {
            runs: self.runs.len(),
            fires: self.runs.values().filter(|run| run.lane == Lane::Schedule).count(),
            events: self.events.values().map(Vec::len).sum(),
            starts: self.events.values().flatten().filter(|event| event.starts()).count(),
            skips: self.skips.values().map(Vec::len).sum(),
            jobs: self.jobs.values().filter(|job| job.state != State::Deleted).count(),
        }
    }

    pub(crate) fn events_of(&self, run: RunId) -> &[EventRecord] {
        self.events.get(&run).map_or(&[], Vec::as_slice)
    }

    /// The skip record of a revision that covers a due time, with a reason that fits.
    pub(crate) fn skip_over(
        &self,
        (job, revision): (JobId, u32),
        due: Timestamp,
        fits: impl Fn(SkipReason) -> bool,
    ) -> Option<&SkipRecord> {
        let skips = self.skips.get(&(job, revision))?;
        let later = skips.partition_point(|skip| skip.from <= due);
        // Fitting records do not overlap, so only the last one that begins at or before the due time can cover it.
        skips[..later].iter().rev().find(|skip| fits(skip.reason)).filter(|skip| skip.covers(due))
    }

    /// Whether the history has a run or a skip record of a job.
    pub(crate) fn has_records_of(&self, job: JobId) -> bool {
        let has_skips = self.skips.keys().any(|(of, _)| *of == job);
        has_skips || self.runs.values().any(|run| self.job_of(run).is_some_and(|of| of.id == job))
    }

    /// The known revisions of a job without a gap up to its current one, in order.
    pub(crate) fn revisions_of(&self, job: &JobRecord) -> Vec<&RevisionRecord> {
        let newest_first = (1..=job.revision).rev().map_while(|number| self.revisions.get(&(job.id, number)));
        let mut revisions: Vec<_> = newest_first.collect();
        revisions.reverse();
        revisions
    }

    /// How many attempts of its job may run beside this run. `None` means any number, or unknown. An edit also applies
    /// to waiting runs, so the run is checked against the loosest revision since it was made.
    pub(crate) fn at_once_max(&self, run: &RunRecord) -> Option<u32> {
        let job = self.job_of(run)?;
        // `finally` runs also after a deletion, and the limit went with the job.
        if job.state == State::Deleted && run.created_at >= job.updated_at {
            return None;
        }
        let most = |rules: &Rules| match run.parent {
            Some(_) => rules.running_max,
            None => rules.at_once_max(),
        };
        let mut loosest = most(&job.rules)?;
        for revision in run.revision..job.revision {
            loosest = loosest.max(most(&self.revisions.get(&(job.id, revision))?.rules)?);
        }
        Some(loosest)
    }

    /// Whether every revision since the run was made forbids that runs of its job overlap.
    pub(crate) fn forbids_overlap(&self, run: &RunRecord) -> bool {
        let Some(job) = self.job_of(run) else { return false };
        let mut revisions =
            (run.revision..job.revision).map(|revision| self.revisions.get(&(job.id, revision)));
        let forbids = |rules: &Rules| rules.overlap != Overlap::Allow;
        forbids(&job.rules)
            && revisions.all(|revision| revision.is_some_and(|revision| forbids(&revision.rules)))
    }

    /// The job that has a name now.
    pub(crate) fn job_named(&self, namespace: &Namespace, name: &Name) -> Option<&JobRecord> {
        self.jobs.get(self.named.get(&(namespace.clone(), name.clone()))?)
    }

    /// The rules that a run was made under. `None` means they are not known.
    pub(crate) fn rules_of(&self, run: &RunRecord) -> Option<&Rules> {
        Some(&self.revision_of(run)?.rules)
    }

    pub(crate) fn revision_of(&self, run: &RunRecord) -> Option<&RevisionRecord> {
        self.revisions.get(&(self.job_of(run)?.id, run.revision))
    }

    /// The job of a run. `None` means the run was submitted without a job, or its job is gone. An export identifies
    /// jobs by name, and a name may be reused after a deletion: a run older than the job belongs to an earlier job.
    pub(crate) fn job_of(&self, run: &RunRecord) -> Option<&JobRecord> {
        let named = run.job.as_ref()?;
        match named.id {
            Some(id) => self.jobs.get(&id),
            None => {
                let id = self.named.get(&(run.namespace.clone(), named.name.clone()))?;
                self.jobs.get(id).filter(|job| job.created_at <= run.created_at)
            }
        }
    }
}
