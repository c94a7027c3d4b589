//! Seals the dirty rows into one batch, and removes from memory what need not stay there.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Changes, DeadLetter, DeletedJob, Row, RowKey, RunRecord};
use punctual_core::ids::{JobId, RunId};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::Run;
use punctual_core::search::{RunTerm, terms_of_birth, terms_of_end};

use crate::Shard;
use crate::event::Context;
use crate::memory::{LiveJob, Stored};
use crate::plan::TimerOwner;
use crate::shard::{Dirty, Settled};

impl Shard {
    /// Everything that changed since the last seal, as one batch. Rows with nothing to do soon leave memory.
    pub fn seal(&mut self, cx: &mut Context<'_>) -> Batch {
        self.batch += 1;
        self.ids.pass(cx.now);
        let mut changes = Changes::default();
        let dirty = std::mem::take(&mut self.dirty);
        self.seal_jobs(&dirty, &mut changes);
        self.seal_runs(dirty.runs.iter().chain(&dirty.lazy), &mut changes);
        self.count(&dirty, &mut changes, cx.now);
        for settled in dirty.settled {
            seal_settled(settled, self.settings.records, &mut changes);
        }
        for (step, stored) in dirty.steps.into_values() {
            match stored {
                Stored::Yes => changes.update(Row::Step(step)),
                Stored::No => changes.insert(Row::Step(step)),
            }
        }
        for (number, listener) in self.topics.take_unwritten() {
            match listener {
                Some(listener) => changes.insert(Row::Listener(listener)),
                None => changes.delete(RowKey::Listener(number)),
            }
        }
        self.locks.seal(&mut changes);
        for (number, hold) in self.holds.take_unwritten() {
            match hold {
                Some(hold) => changes.insert(Row::Hold(hold)),
                None => changes.delete(RowKey::Hold(number)),
            }
        }
        self.incidents.seal(&mut changes);
        for (key, approval) in dirty.approvals {
            match approval {
                Some(approval) => changes.insert(Row::Approval(approval)),
                None => {
                    cx.pool.approval_ended(&key.namespace, self.id);
                    changes.delete(RowKey::Approval(key));
                }
            }
        }
        for term in dirty.terms {
            changes.insert(Row::Term(Arc::new(term)));
        }
        for revision in dirty.revisions {
            changes.insert(Row::Revision(revision));
        }
        for (key, (unique, stored)) in dirty.uniques {
            self.pins.unique(self.batch, Arc::clone(&key), unique.clone());
            match (unique, stored) {
                (Some(unique), Stored::Yes) => changes.update(Row::Unique(unique)),
                (Some(unique), Stored::No) => changes.insert(Row::Unique(unique)),
                (None, Stored::Yes) => changes.delete(RowKey::Unique(key)),
                (None, Stored::No) => {}
            }
        }
        self.seal_messages(&mut changes, cx);
        for skip in dirty.skips {
            changes.insert(Row::Skip(skip));
        }
        for run in dirty.decided {
            changes.delete(RowKey::DeadLetter(run));
        }
        cx.effects.extend(dirty.once_stored.into_iter().map(|effect| (self.id, effect)));
        for job in dirty.jobs.into_iter().chain(dirty.quieter) {
            self.drop_if_far(job, Some(self.batch));
        }
        for run in dirty.runs {
            self.drop_run_if_far(run, cx);
        }
        self.shrink(cx);
        let batch = Batch {
            shard: self.id,
            epoch: self.epoch,
            commit: self.commit,
            last_id: self.ids.last(),
            changes,
        };
        self.commit += 1;
        batch
    }

    /// Adds the ended runs and the skips of this batch to the statistics.
    fn count(&mut self, dirty: &Dirty, changes: &mut Changes, now: Timestamp) {
        if !self.settings.records {
            return;
        }
        if is_planted(Fault::EndIsCountedLate) {
            self.tallies.seal(self.commit, changes, now);
        }
        for skip in &dirty.skips {
            let deleted = || dirty.deleted_jobs.iter().find(|gone| gone.job.id == skip.job);
            if let Some(live) = self.jobs.get(&skip.job).or_else(deleted) {
                self.tallies.skipped(&live.job, skip);
            }
        }
        dirty.settled.iter().for_each(|settled| self.tallies.ended(&settled.run));
        if !is_planted(Fault::EndIsCountedLate) {
            self.tallies.seal(self.commit, changes, now);
        }
    }

    /// The number of the batch that will carry what is dirty now.
    pub(crate) fn next_batch(&self) -> u64 {
        self.batch + 1
    }

    /// The number of the newest sealed batch.
    pub fn sealed(&self) -> u64 {
        self.batch
    }

    /// To be called when the batches up to `through` are committed and every read that began before has returned.
    pub fn release_pins(&mut self, through: u64) {
        self.pins.release(through);
    }

    fn seal_jobs(&mut self, dirty: &Dirty, changes: &mut Changes) {
        for id in &dirty.jobs {
            if let Some(live) = self.jobs.get_mut(id) {
                let row = Row::Job(Arc::clone(&live.job));
                if std::mem::replace(&mut live.stored, true) {
                    changes.update(row);
                } else {
                    changes.insert(row);
                }
            }
        }
        for gone in &dirty.deleted_jobs {
            // A job may be created and deleted in one batch. Its revisions and skips are found by this row.
            changes.insert(Row::DeletedJob(DeletedJob::of(&gone.job)));
            if gone.stored {
                changes.delete(RowKey::Job(gone.job.id));
            }
        }
    }

    fn seal_runs<'a>(&mut self, dirty: impl Iterator<Item = &'a RunId>, changes: &mut Changes) {
        for id in dirty {
            if let Some(live) = self.runs.get_mut(id) {
                let row = Row::Run(Arc::clone(&live.run));
                if std::mem::replace(&mut live.stored, true) {
                    changes.update(row);
                } else {
                    changes.insert(row);
                    if self.settings.records {
                        index(&live.run, terms_of_birth(&live.run, &live.definition), changes);
                    }
                }
            }
        }
    }

    /// Removes a job from memory if it has nothing to do soon, and pins it under `batch`. `None`: the job is unchanged
    /// and needs no pin.
    pub(crate) fn drop_if_far(&mut self, id: JobId, batch: Option<u64>) {
        let Some(live) = self.jobs.get(&id) else { return };
        // The timers of a hold are read again when it ends.
        let is_near = |at: Timestamp| self.plan.is_near(at, TimerOwner::Job(id));
        let has_timer = live.job.timer_at().is_some_and(is_near) && !self.holds.covers(&live.job.namespace);
        if has_timer || !live.is_idle() {
            return;
        }
        if let Some(live) = self.forget_job(id)
            && let Some(batch) = batch
        {
            let key = (live.job.namespace.clone(), live.job.name.clone());
            self.pins.job(batch, key, Some(live.job));
        }
    }

    pub(crate) fn forget_job(&mut self, id: JobId) -> Option<LiveJob> {
        let live = self.jobs.remove(&id)?;
        self.names.remove(&(live.job.namespace.clone(), live.job.name.clone()));
        self.plan.disarm(live.job.timer_at(), TimerOwner::Job(id));
        Some(live)
    }

    fn drop_run_if_far(&mut self, id: RunId, cx: &mut Context<'_>) {
        let Some(at) = self.runs.get(&id).and_then(|live| live.run.wake_at()) else { return };
        if !self.plan.is_near(at, TimerOwner::Run(id)) {
            self.evict_run(id, cx);
        }
    }

    fn evict_run(&mut self, id: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.forget_waiting(id, cx) else { return };
        let job = live.run.job().and_then(|job| self.jobs.get(&job)).map(|live| Arc::clone(&live.job));
        let record =
            RunRecord { run: live.run, definition: live.definition, job: job.clone(), dead_letter: false };
        self.pins.run(self.batch, record);
        if let Some(job) = job {
            self.drop_if_far(job.id, Some(self.batch));
        }
    }

    /// Bounds the number of armed timers: the farthest leave memory, and a page brings them back in time.
    fn shrink(&mut self, cx: &mut Context<'_>) {
        for owner in self.plan.shrink() {
            match owner {
                TimerOwner::Message(number) => self.message_is_far(number),
                TimerOwner::Run(run) => self.drop_run_if_far(run, cx),
                TimerOwner::Job(job) => self.drop_if_far(job, Some(self.batch)),
            }
        }
    }
}

fn seal_settled(settled: Settled, records: bool, changes: &mut Changes) {
    let Settled { run, definition, stored, dead } = settled;
    if stored {
        changes.delete(RowKey::Run(run.id));
    } else if records {
        index(&run, terms_of_birth(&run, &definition), changes);
    }
    if records && !(run.attempt == 1 && is_planted(Fault::ErrorIsNotIndexed)) {
        index(&run, terms_of_end(&run, &definition), changes);
    }
    if dead {
        let (namespace, at) = (run.namespace.clone(), run.finished_at.unwrap_or(run.due));
        let job = run.job_name().cloned();
        changes.insert(Row::DeadLetter(DeadLetter { run: run.id, namespace, job, at }));
    }
    changes.insert(Row::History(run));
}

/// Adds terms of a run to the search index.
fn index(run: &Run, terms: BTreeSet<Arc<str>>, changes: &mut Changes) {
    for term in terms {
        let entry = RunTerm { namespace: run.namespace.clone(), term, run: run.id };
        changes.insert(Row::Term(Arc::new(entry)));
    }
}
