//! Never lost, and overlap: every due time of a job has a run or a record, and its attempts overlap only if allowed.
//!
//! Whenever a job's row changes, each due time between its old cursor and its new one, or up to an edit, must have a run
//! or be in a recorded skip. So a loss is found at the commit that causes it.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Revision, Row, RowKey};
use punctual_core::command::Answer;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job, Overlap};
use punctual_core::name::Name;
use punctual_core::run::{Origin, Run, State, Status, Wait};
use punctual_core::statistics::is_counted;
use rustc_hash::{FxHashMap, FxHashSet};

use super::runs::Runs;
use super::{Seen, Verdict};

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    rows: FxHashMap<JobId, Arc<Job>>,
    revisions: FxHashMap<(JobId, u32), Arc<Revision>>,
    skips: FxHashMap<JobId, Vec<(Timestamp, Timestamp)>>,
    /// Jobs that have allowed overlap at some time: they may still have runs from then.
    lenient: FxHashSet<JobId>,
}

impl Jobs {
    pub(super) fn is_paused(&self, name: &Name) -> bool {
        self.rows.values().any(|job| job.name == *name && job.is_paused())
    }

    pub(super) fn landed(&mut self, batch: &Batch, runs: &Runs, seen: &mut Seen) -> Verdict {
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Skip(skip)) => {
                    seen.skips += 1;
                    // Times that a calendar excludes or an edit drops were not due.
                    if is_counted(skip.reason) {
                        self.skips.entry(skip.job).or_default().push((skip.from, skip.to));
                    }
                }
                Change::Insert(Row::Revision(revision)) => {
                    if revision.definition.overlap == Overlap::Allow {
                        self.lenient.insert(revision.job);
                    }
                    self.revisions.insert((revision.job, revision.revision), Arc::clone(revision));
                }
                _ => {}
            }
        }
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::Job(job)) | Change::Update(Row::Job(job))) => {
                    seen.job_rows += 1;
                    if let Some(before) = self.rows.insert(job.id, Arc::clone(job)) {
                        self.nothing_lost(&before, job, runs, seen)?;
                    }
                }
                (RowKey::Job(job), Change::Delete) => {
                    self.rows.remove(job);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn nothing_lost(&self, before: &Job, after: &Job, runs: &Runs, seen: &mut Seen) -> Verdict {
        let from = before.cursor.fired_through.max(before.updated_at);
        let until = self.decided_until(before, after);
        // Schedules with `max_runs` are checked by `verify`, which counts over the whole history.
        for schedule in before.definition.schedules.iter().filter(|schedule| schedule.max_runs.is_none()) {
            let mut at = from;
            while let Some(due) = schedule.next(at, before.created_at).filter(|due| *due <= until) {
                seen.due_times += 1;
                at = due;
                if runs.has_fired(before.id, due) {
                    continue;
                }
                let Some(to) = self.skipped_to(before.id, due) else {
                    let (job, revision) = (&before.name, before.revision);
                    return Err(format!(
                        "never lost: {job} (revision {revision}) was due at {due}, is past it, and has neither a run \
                         nor a recorded skip"
                    ));
                };
                at = to;
            }
        }
        Ok(())
    }

    /// Until when the schedule of the older row was valid: the cursor of the newer row, or the edit, pause or resume that
    /// ended it.
    fn decided_until(&self, before: &Job, after: &Job) -> Timestamp {
        match self.revisions.get(&(before.id, before.revision + 1)) {
            Some(next) if after.revision > before.revision => {
                let goes_on =
                    next.definition.schedules == before.definition.schedules && next.state == before.state();
                if goes_on { next.at.min(after.cursor.fired_through) } else { next.at }
            }
            _ => after.cursor.fired_through,
        }
    }

    fn skipped_to(&self, job: JobId, due: Timestamp) -> Option<Timestamp> {
        let skips = self.skips.get(&job)?;
        skips.iter().rev().find(|(from, to)| *from <= due && due <= *to).map(|(_, to)| *to)
    }

    /// At no moment does the store hold two running attempts of a job that forbids it.
    pub(super) fn overlap(&self, runs: &Runs) -> Verdict {
        let mut running: FxHashMap<JobId, RunId> = FxHashMap::default();
        let counts = |run: &&Arc<Run>| run.parent().is_none() && !run.is_backfill();
        for run in runs.live().filter(|run| run.status() == Status::Running).filter(counts) {
            let Some(job) =
                run.job().filter(|job| self.rows.contains_key(job) && !self.lenient.contains(job))
            else {
                continue;
            };
            if let Some(other) = running.insert(job, run.id) {
                return Err(format!("overlap: runs {other} and {} of job {job} run at once", run.id));
            }
        }
        Ok(())
    }

    /// A run waits for an earlier run only if the overlap policy says so. Checked only for jobs that were never edited,
    /// because an edit also applies to runs that already wait. A replayed dead letter waits under every policy.
    pub(super) fn held(&self, runs: &Runs) -> Verdict {
        let mut held: FxHashMap<JobId, RunId> = FxHashMap::default();
        for run in runs.live().filter(|run| run.retry_of.is_none() && run.parent().is_none()) {
            // A run whose retry waits for a limit is no second run in the queue of the overlap policy.
            let (State::Waiting { wait: Wait::Overlap }, Some(id)) = (&run.state, run.job()) else {
                continue;
            };
            let Some(job) = self.rows.get(&id).filter(|job| job.revision == 1) else { continue };
            let other = held.insert(id, run.id);
            match job.definition.overlap {
                Overlap::Skip => {
                    return Err(format!(
                        "overlap: run {} of {} waits, but should be skipped",
                        run.id, job.name
                    ));
                }
                Overlap::QueueOne | Overlap::Replace if other.is_some() => {
                    return Err(format!("overlap: two runs of {} wait; {} is the second", job.name, run.id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn answered(&self, answer: &Answer) -> Verdict {
        let Answer::Job { job, .. } = answer else { return Ok(()) };
        // A job that was made and deleted in one batch leaves only its revision.
        if self.revisions.contains_key(&(job.id, job.revision)) {
            return Ok(());
        }
        let (name, revision) = (&job.name, job.revision);
        Err(format!("revision {revision} of job {name} was acknowledged before it was committed"))
    }

    /// The job of a run, with its definition, if it exists and was never edited.
    pub(super) fn unedited(&self, run: &Run) -> Option<(JobId, &Definition)> {
        let job = self.rows.get(&run.job()?).filter(|job| job.revision == 1)?;
        Some((job.id, &job.definition))
    }

    /// The definition that a run was made with.
    pub(super) fn definition_of<'a>(&'a self, run: &'a Run) -> Option<&'a Definition> {
        match &run.origin {
            Origin::AdHoc(definition) => Some(definition),
            Origin::Job { id, revision, .. } => {
                self.revisions.get(&(*id, *revision)).map(|revision| &*revision.definition)
            }
        }
    }
}
