//! Reads.

use std::ops::Bound;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{
    DeadLetter, Loaded, Revision, Row, RowKey, RunRecord, Skip, TimerPage, TimerPlace, UniqueKey,
};
use punctual_core::ids::{Epoch, JobId, RunId, ShardId};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Place, QueueNumber};
use punctual_core::run::{Origin, Run};

use super::tables::Tables;
use crate::listing::{Span, listed};
use crate::weight::Weight;
use crate::{Error, JobFilter, Result, RunFilter, Stats, refusal};

impl Tables {
    pub(super) fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        let row = self.shards.get(usize::from(shard.0)).filter(|row| row.epoch == epoch);
        let row = row.ok_or(Error::Fenced { shard, epoch })?;
        let live = self.live_runs(0, i64::MAX);
        let held = live.filter(|run| run.shard() == shard && run.wake_at().is_none());
        let runs = held.map(|run| self.record(run)).collect::<Result<_>>()?;
        let queues = self.queues_of(shard);
        Ok(Loaded { shard, epoch, commit: row.commit, last_id: row.last_id, runs, queues })
    }

    pub(super) fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        let beyond = Bound::Excluded((shard, after, last_key()));
        let timers = self.timers.range((beyond, Bound::Unbounded));
        let (mut page, mut weight) = (TimerPage::default(), Weight::default());
        for (_, place, key) in timers.take_while(|(of, ..)| *of == shard).take(limit) {
            match self.row(shard, key) {
                Some(Row::Job(job)) => page.jobs.push(Arc::clone(job)),
                Some(Row::Run(run)) => page.runs.push(self.record(run)?),
                Some(Row::Message(message)) => {
                    weight.add(message);
                    page.messages.push(Arc::clone(message));
                }
                _ => unreachable!("a timer without its row: {key:?}"),
            }
            page.end = Some(*place);
            if weight.is_full() {
                break;
            }
        }
        Ok(page)
    }

    pub(super) fn job(&self, id: JobId) -> Option<Arc<Job>> {
        match self.row(id.shard(), &RowKey::Job(id)) {
            Some(Row::Job(job)) => Some(Arc::clone(job)),
            _ => None,
        }
    }

    pub(super) fn job_named(&self, namespace: Namespace, name: Name) -> Option<Arc<Job>> {
        self.names.get(&(namespace, name)).and_then(|id| self.job(*id))
    }

    pub(super) fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<&(Namespace, Name)>,
        limit: usize,
    ) -> Vec<Arc<Job>> {
        let names = self.names.iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
        let jobs = names.filter_map(|(_, id)| self.job(*id));
        jobs.filter(|job| filter.takes(job)).take(limit).collect()
    }

    pub(super) fn record_of(&self, id: RunId) -> Result<Option<RunRecord>> {
        let live = self.row(id.shard(), &RowKey::Run(id));
        match live.or_else(|| self.row(id.shard(), &RowKey::History(id))) {
            Some(Row::Run(run) | Row::History(run)) => self.record(run).map(Some),
            _ => Ok(None),
        }
    }

    fn record(&self, run: &Arc<Run>) -> Result<RunRecord> {
        let job = run.job().and_then(|id| self.job(id));
        let definition = self.definition(run, job.as_ref())?;
        let dead_letter = self.row(run.shard(), &RowKey::DeadLetter(run.id)).is_some();
        Ok(RunRecord { run: Arc::clone(run), definition, job, dead_letter })
    }

    /// The definition of a run: its own if it is ad hoc, else its job's current one or an earlier revision.
    fn definition(&self, run: &Run, job: Option<&Arc<Job>>) -> Result<Arc<Definition>> {
        let (id, revision) = match &run.origin {
            Origin::AdHoc(definition) => return Ok(Arc::clone(definition)),
            Origin::Job { id, revision, .. } => (*id, *revision),
        };
        if let Some(job) = job.filter(|job| job.revision == revision) {
            return Ok(Arc::clone(&job.definition));
        }
        match self.row(id.shard(), &RowKey::Revision(id, revision)) {
            Some(Row::Revision(revision)) => Ok(Arc::clone(&revision.definition)),
            _ => Err(refusal::no_revision(run.id, id, revision)),
        }
    }

    pub(super) fn unique(&self, shard: ShardId, key: Arc<str>) -> Option<UniqueKey> {
        match self.row(shard, &RowKey::Unique(key)) {
            Some(Row::Unique(unique)) => Some(unique.clone()),
            _ => None,
        }
    }

    pub(super) fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Vec<Arc<Run>> {
        let Some(Span { first, last }) = Span::of(filter, after) else { return Vec::new() };
        let live = self.live_runs(first, last);
        let all = live.chain(self.history(first, last)).filter(|run| filter.takes(run));
        let mut runs: Vec<Arc<Run>> = all.cloned().collect();
        runs.sort_by_key(|run| if filter.oldest_first { run.id.0 } else { -run.id.0 });
        runs.truncate(limit);
        runs.into_iter().map(listed).collect()
    }

    pub(super) fn live_runs(&self, first: i64, last: i64) -> impl Iterator<Item = &Arc<Run>> {
        self.between(RowKey::Run(RunId(first)), RowKey::Run(RunId(last))).filter_map(|row| match row {
            Row::Run(run) => Some(run),
            _ => None,
        })
    }

    pub(super) fn history(&self, first: i64, last: i64) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        self.between(RowKey::History(RunId(first)), RowKey::History(RunId(last))).filter_map(
            |row| match row {
                Row::History(run) => Some(run),
                _ => None,
            },
        )
    }

    pub(super) fn dead_letters(&self, first: i64) -> impl Iterator<Item = &DeadLetter> {
        let rows = self.between(RowKey::DeadLetter(RunId(first)), RowKey::DeadLetter(RunId(i64::MAX)));
        rows.filter_map(|row| match row {
            Row::DeadLetter(letter) => Some(letter),
            _ => None,
        })
    }

    pub(super) fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Vec<Arc<Revision>> {
        let Some(last) = before.map_or(Some(u32::MAX), |before| before.checked_sub(1)) else {
            return Vec::new();
        };
        let rows = self.between(RowKey::Revision(job, 0), RowKey::Revision(job, last)).rev();
        let revisions = rows.filter_map(|row| match row {
            Row::Revision(revision) => Some(Arc::clone(revision)),
            _ => None,
        });
        revisions.take(limit).collect()
    }

    /// The skip records of a job, newest first.
    pub(super) fn skips(&self, job: JobId) -> impl Iterator<Item = &Skip> {
        let first = RowKey::Skip(job, 0, Timestamp::from_millis(i64::MIN));
        let last = RowKey::Skip(job, u32::MAX, Timestamp::from_millis(i64::MAX));
        self.between(first, last).rev().filter_map(|row| match row {
            Row::Skip(skip) => Some(skip),
            _ => None,
        })
    }

    pub(super) fn between(&self, first: RowKey, last: RowKey) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.range((first, ShardId(0))..=(last, ShardId(u16::MAX))).map(|(_, row)| row)
    }

    pub(super) fn stats(&self) -> Stats {
        let count = |counts: fn(&Row) -> bool| self.rows.values().filter(|row| counts(row)).count() as u64;
        Stats {
            jobs: count(|row| matches!(row, Row::Job(_))),
            live_runs: count(|row| matches!(row, Row::Run(_))),
            history_runs: count(|row| matches!(row, Row::History(_))),
            dead_letters: count(|row| matches!(row, Row::DeadLetter(_))),
            queues: count(|row| matches!(row, Row::Queue(_))),
            messages: self.all_queues().map(|queue| queue.messages).sum(),
        }
    }
}

/// Greater than every key of a row.
fn last_key() -> RowKey {
    RowKey::Message(QueueNumber(u32::MAX), Place { rank: u8::MAX, number: i64::MAX })
}
