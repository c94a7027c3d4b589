//! What happened, as far as anyone wrote it down.
//!
//! Built line by line from an export, or from core's own types by those who hold them. Runs, jobs and skips
//! may come in any order; checks begin when all are there. A run that was read twice, because it moved while
//! the export walked by, is kept once: the newer reading wins.

mod line;
mod record;
mod rules;

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::change::{Revision, Skip};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use rustc_hash::FxHashMap;

pub use line::BadLine;
pub use record::{EventRecord, JobRecord, JobRef, Lane, RunRecord, SkipRecord, StatsRecord};
pub use rules::Rules;

use crate::checks;
use crate::options::Options;
use crate::report::{Counted, Report};

#[derive(Debug, Clone, Default)]
pub struct History {
    pub(crate) runs: BTreeMap<RunId, RunRecord>,
    /// In order of their numbers.
    pub(crate) events: FxHashMap<RunId, Vec<EventRecord>>,
    pub(crate) jobs: BTreeMap<JobId, JobRecord>,
    named: FxHashMap<(Namespace, Name), JobId>,
    pub(crate) skips: FxHashMap<JobId, Vec<SkipRecord>>,
    /// Rules of revisions that are no longer the newest.
    pub(crate) revisions: FxHashMap<(JobId, u32), Rules>,
    pub(crate) stats: Option<StatsRecord>,
    lines: u64,
}

impl History {
    pub fn new() -> History {
        History::default()
    }

    /// A history from the lines of an export.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<History, BadLine> {
        let mut history = History::new();
        lines.into_iter().try_for_each(|line| history.add_line(line))?;
        Ok(history)
    }

    /// Adds one line of an export. Blank lines and types that no check needs are passed over.
    pub fn add_line(&mut self, text: &str) -> Result<(), BadLine> {
        self.lines += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        line::add(self, text).map_err(|what| BadLine { number: self.lines, what })
    }

    /// Adds a run with its events, as it is stored. A run that is added again with other events is found out:
    /// make a new history for each look at something that moves.
    pub fn add_run(&mut self, run: &Run) {
        for event in EventRecord::all_of(run) {
            self.add_event(event);
        }
        self.add_run_record(run.into());
    }

    pub fn add_job(&mut self, job: &Job) {
        self.add_job_record(job.into());
    }

    pub fn add_skip(&mut self, skip: &Skip) {
        self.add_skip_record(skip.into());
    }

    /// An earlier revision of a job, so that the runs made under it are held to its rules.
    pub fn add_revision(&mut self, revision: &Revision) {
        self.revisions.insert((revision.job, revision.revision), (&*revision.definition).into());
    }

    pub(crate) fn add_run_record(&mut self, run: RunRecord) {
        let is_older = self.runs.get(&run.id).is_some_and(|kept| kept.status.is_terminal());
        if !is_older {
            self.runs.insert(run.id, run);
        }
    }

    pub(crate) fn add_job_record(&mut self, job: JobRecord) {
        self.named.insert((job.namespace.clone(), job.name.clone()), job.id);
        self.jobs.insert(job.id, job);
    }

    pub(crate) fn add_skip_record(&mut self, skip: SkipRecord) {
        let skips = self.skips.entry(skip.job).or_default();
        let place = skips.partition_point(|other| other.from < skip.from);
        if skips.get(place) != Some(&skip) {
            skips.insert(place, skip);
        }
    }

    /// Events of a run that was read twice come twice, word for word; only what differs is kept beside them.
    pub(crate) fn add_event(&mut self, event: EventRecord) {
        let events = self.events.entry(event.run).or_default();
        let place = events.partition_point(|other| other.seq <= event.seq);
        let known = events[..place].iter().rev().take_while(|other| other.seq == event.seq);
        if !known.into_iter().any(|other| *other == event) {
            events.insert(place, event);
        }
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
            jobs: self.jobs.len(),
        }
    }

    pub(crate) fn events_of(&self, run: RunId) -> &[EventRecord] {
        self.events.get(&run).map_or(&[], Vec::as_slice)
    }

    /// The record that passes over a due time of a job. Records do not overlap, so the last one to begin before
    /// it is the one.
    pub(crate) fn skip_over(&self, job: JobId, due: Timestamp) -> Option<&SkipRecord> {
        let skips = self.skips.get(&job)?;
        let later = skips.partition_point(|skip| skip.from <= due);
        skips[..later].last().filter(|skip| skip.covers(due))
    }

    /// How many attempts of its job may run beside this run; none: any number, or not known. An edit counts
    /// for runs that still wait, so the loosest revision since the run was made is the one to hold it to.
    pub(crate) fn at_once_max(&self, run: &RunRecord) -> Option<u32> {
        let job = self.job_of(run)?;
        let most = |rules: &Rules| match run.parent {
            Some(_) => rules.running_max,
            None => rules.at_once_max(),
        };
        let mut loosest = most(&job.rules)?;
        for revision in run.revision..job.revision {
            loosest = loosest.max(most(self.revisions.get(&(job.id, revision))?)?);
        }
        Some(loosest)
    }

    /// The rules that a run was made under, where they are known.
    pub(crate) fn rules_of(&self, run: &RunRecord) -> Option<&Rules> {
        let job = self.job_of(run)?;
        if job.revision == run.revision {
            return Some(&job.rules);
        }
        self.revisions.get(&(job.id, run.revision))
    }

    /// The job that a run belongs to; none: submitted by itself, or its job is gone. An export names jobs by
    /// their names, and a name may be taken again after a deletion: a run older than the job is not its run.
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
