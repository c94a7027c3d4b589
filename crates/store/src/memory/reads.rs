//! Reads.

mod load;
mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::alert::Incident;
use punctual_core::change::{
    DeadLetter, DeletedJob, Found, Revision, Row, RowKey, RunRecord, Skip, TimerPage, TimerPosition,
    UniqueKey, Want,
};
use punctual_core::hold::HoldRecord;
use punctual_core::ids::{Epoch, IncidentId, JobId, RunId, ShardId, Token, first_id_at};
use punctual_core::job::{Definition, Job};
use punctual_core::lock::Lock;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, QueueKey, QueueRecord};
use punctual_core::run::{Origin, Run};
use punctual_core::schedule::calendar;
use punctual_core::search::{RunTerm, Search};
use punctual_core::statistics::Counts;
use punctual_core::workflow::{Approval, ApprovalKey, StepKey, StepRecord};
use punctual_core::{Timestamp, log, queue};

use super::Memory;
use super::tables::{Tables, last_key};
use crate::definitions::StepDefinitions;
use crate::listing::{Span, listed, looked_up};
use crate::page_bytes::PageBytes;
use crate::{
    CalendarFilter, Children, End, IncidentFilter, JobFilter, LetterFilter, NAMESPACE_COUNT_MAX,
    NamespaceCounts, Reads, Result, RunFilter, StatisticsFilter, Stats, StatusCount, refusal,
};

#[async_trait]
impl Reads for Memory {
    fn shards(&self) -> u16 {
        self.shards
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        let tables = self.tables.lock();
        let mut found = Found::default();
        for (shard, want) in wants {
            match want {
                Want::Job(namespace, name) => found.jobs.extend(tables.job_named(namespace, name)),
                Want::Run(run) => found.runs.extend(tables.record_of(run)?.map(looked_up)),
                Want::Steps(run) => {
                    let whole = tables.steps(run).filter(|step| step.key.item.is_none());
                    found.steps.extend(whole.cloned());
                }
                Want::Unique(key) => found.uniques.extend(tables.unique(shard, key)),
                Want::Message(id) => found.messages.extend(tables.message(id)),
                Want::DueRuns(span) => {
                    let ended = tables.history(first_id_at(span.from), i64::MAX);
                    found.due_runs.extend(ended.filter_map(|run| span.due_of(run)));
                }
            }
        }
        Ok(found)
    }

    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        Ok(self.tables.lock().list_queues(namespace, after, limit))
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<queue::MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().messages(queue, after, limit))
    }

    async fn queued_messages(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().queued_from(queue, from, limit))
    }

    async fn commits(&self) -> Result<Vec<(Epoch, u64)>> {
        Ok(self.tables.lock().shards.iter().map(|row| (row.epoch, row.commit)).collect())
    }

    async fn namespaces(&self, after: Option<&Namespace>, limit: usize) -> Result<Vec<NamespaceCounts>> {
        Ok(self.tables.lock().namespaces(after, limit))
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        Ok(self.tables.lock().job_named(namespace.clone(), name.clone()))
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        Ok(self.tables.lock().jobs(filter, after.as_ref(), limit))
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let record = self.tables.lock().record_of(run)?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        Ok(self.tables.lock().runs(filter, after, limit))
    }

    async fn last_runs(&self, jobs: &[JobId], limit: usize) -> Result<Vec<Arc<Run>>> {
        let (tables, mut jobs) = (self.tables.lock(), jobs.to_vec());
        jobs.sort_unstable();
        jobs.dedup();
        let of_job = |job| {
            let filter = RunFilter { jobs: vec![job], children: Children::LeftOut, ..RunFilter::default() };
            tables.runs(&filter, None, limit)
        };
        Ok(jobs.into_iter().flat_map(of_job).collect())
    }

    async fn count_runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<StatusCount>> {
        let tables = self.tables.lock();
        let count = |status| {
            let filter = RunFilter { statuses: vec![status], ..filter.clone() };
            let runs = tables.runs(&filter, None, limit.saturating_add(1)).len();
            StatusCount { status, runs: runs.min(limit) as u64, complete: runs <= limit }
        };
        Ok(filter.wanted_statuses().into_iter().map(count).collect())
    }

    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let tables = self.tables.lock();
        let letters = tables.dead_letters(after.map_or(0, |run| run.0 + 1));
        Ok(letters.filter(|letter| filter.takes(letter)).take(limit).cloned().collect())
    }

    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>> {
        let tables = self.tables.lock();
        let wanted = tables
            .deleted_jobs()
            .filter(|gone| named.is_none_or(|named| named == (&gone.namespace, &gone.name)))
            .filter(|gone| after.is_none_or(|after| gone.id > after));
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn steps(
        &self,
        run: RunId,
        after: Option<(u32, Option<u32>)>,
        limit: usize,
    ) -> Result<Vec<Arc<StepRecord>>> {
        let tables = self.tables.lock();
        let later =
            tables.steps(run).filter(|step| after.is_none_or(|after| (step.key.step, step.key.item) > after));
        Ok(later.take(limit).cloned().collect())
    }

    async fn approvals(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&ApprovalKey>,
        limit: usize,
    ) -> Result<Vec<Approval>> {
        let tables = self.tables.lock();
        let all = tables.rows.values().filter_map(|row| match row {
            Row::Approval(approval) => Some(approval),
            _ => None,
        });
        let wanted = all
            .filter(|approval| namespace.is_none_or(|namespace| approval.key.namespace == *namespace))
            .filter(|approval| after.is_none_or(|after| *approval.key > *after));
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn locks(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Arc<Lock>>> {
        let tables = self.tables.lock();
        let all = tables.rows.values().filter_map(|row| match row {
            Row::Lock(lock) => Some(lock),
            _ => None,
        });
        let wanted = all.filter(|lock| {
            lock.key.namespace == *namespace && after.is_none_or(|after| lock.key.name > *after)
        });
        let mut wanted: Vec<Arc<Lock>> = wanted.cloned().collect();
        wanted.sort_by(|a, b| a.key.cmp(&b.key));
        wanted.truncate(limit);
        Ok(wanted)
    }

    async fn incidents(
        &self,
        filter: &IncidentFilter,
        before: Option<IncidentId>,
        limit: usize,
    ) -> Result<Vec<Arc<Incident>>> {
        let tables = self.tables.lock();
        let all = tables.rows.values().filter_map(|row| match row {
            Row::Incident(incident) => Some(incident),
            _ => None,
        });
        let earlier = all.filter(|incident| before.is_none_or(|before| incident.id < before));
        let mut wanted: Vec<_> = earlier.filter(|incident| filter.takes(incident)).cloned().collect();
        wanted.sort_by_key(|incident| std::cmp::Reverse(incident.id));
        wanted.truncate(limit);
        Ok(wanted)
    }

    async fn holds(&self) -> Result<Vec<Arc<HoldRecord>>> {
        let tables = self.tables.lock();
        let all = tables.rows.values().filter_map(|row| match row {
            Row::Hold(hold) => Some(Arc::clone(hold)),
            _ => None,
        });
        Ok(all.collect())
    }

    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>> {
        let tables = self.tables.lock();
        let skips = tables.skips(job);
        let beyond = skips.filter(|skip| before.is_none_or(|before| (skip.revision, skip.from) < before));
        Ok(beyond.take(limit).cloned().collect())
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        match self.tables.lock().row(job.shard(), &RowKey::Revision(job, revision)) {
            Some(Row::Revision(revision)) => Ok(Some(Arc::clone(revision))),
            _ => Ok(None),
        }
    }

    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>> {
        Ok(self.tables.lock().revisions(job, before, limit))
    }

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>> {
        Ok(self.tables.lock().calendars.get(&(namespace.clone(), name.clone())).cloned())
    }

    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>> {
        let tables = self.tables.lock();
        let beyond =
            tables.calendars.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let wanted = beyond.map(|(_, record)| record).filter(|record| filter.takes(record));
        Ok(wanted.take(limit).cloned().collect())
    }

    async fn stats(&self) -> Result<Stats> {
        Ok(self.tables.lock().stats())
    }

    async fn statistics(&self, filter: &StatisticsFilter) -> Result<Vec<(Timestamp, Counts)>> {
        Ok(self.tables.lock().statistics(filter))
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::ChunkPosition>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>> {
        let tables = self.tables.lock();
        let place = |token, number| (run, log::ChunkPosition { token: Token(token), number });
        let from = after.map_or(Bound::Included(place(0, 0)), |after| Bound::Excluded((run, after)));
        let beyond = tables.logs.range((from, Bound::Included(place(u64::MAX, u32::MAX))));
        Ok(beyond.map(|(_, chunk)| chunk.clone()).take(limit).collect())
    }
}

impl Tables {
    /// The steps of a run, in the order of their keys.
    fn steps(&self, run: RunId) -> impl Iterator<Item = &Arc<StepRecord>> {
        let key = |step, item| (RowKey::Step(StepKey { run, step, item }), run.shard());
        let rows = self.rows.range(key(0, None)..=key(u32::MAX, Some(u32::MAX)));
        rows.filter_map(|(_, row)| if let Row::Step(step) = row { Some(step) } else { None })
    }

    pub(super) fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Result<TimerPage> {
        let beyond = Bound::Excluded((shard, after, last_key()));
        let timers = self.timers.range((beyond, Bound::Unbounded));
        let (mut page, mut bytes) = (TimerPage::default(), PageBytes::default());
        for (_, place, key) in timers.take_while(|(of, ..)| *of == shard).take(limit) {
            match self.row(shard, key) {
                Some(Row::Job(job)) => page.jobs.push(Arc::clone(job)),
                Some(Row::Run(run)) => page.runs.push(self.record(run)?),
                Some(Row::Message(message)) => {
                    bytes.add(message);
                    page.messages.push(Arc::clone(message));
                }
                _ => unreachable!("a timer without its row: {key:?}"),
            }
            page.end = Some(*place);
            if bytes.is_full() {
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

    pub(super) fn namespaces(&self, after: Option<&Namespace>, limit: usize) -> Vec<NamespaceCounts> {
        let mut all: BTreeMap<&Namespace, (usize, usize)> = BTreeMap::new();
        for (namespace, _) in self.names.keys() {
            all.entry(namespace).or_default().0 += 1;
        }
        for queue in self.all_queues() {
            all.entry(&queue.key.namespace).or_default().1 += 1;
        }
        let counted = |count: usize| count.min(NAMESPACE_COUNT_MAX) as u64;
        let beyond = all.into_iter().filter(|(namespace, _)| after.is_none_or(|after| *namespace > after));
        let counts = beyond.map(|(namespace, (jobs, queues))| NamespaceCounts {
            namespace: namespace.clone(),
            jobs: counted(jobs),
            queues: counted(queues),
        });
        counts.take(limit).collect()
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
        let definition = StepDefinitions::default().of(run, self.definition(run, job.as_ref())?)?;
        let dead_letter = self.row(run.shard(), &RowKey::DeadLetter(run.id)).is_some();
        Ok(RunRecord { run: Arc::clone(run), definition, job, dead_letter })
    }

    /// The definition of a run's origin: its own if it is ad hoc, else its job's current one or an earlier revision.
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
        let mut runs: Vec<Arc<Run>> = match &filter.search {
            Some(search) => {
                let found = self.found_by(search, filter.namespace.as_ref()).into_iter();
                let runs =
                    found.flat_map(|run| self.live_runs(run.0, run.0).chain(self.history(run.0, run.0)));
                runs.filter(|run| (first..=last).contains(&run.id.0) && filter.takes(run)).cloned().collect()
            }
            None => {
                let all = self.live_runs(first, last).chain(self.history(first, last));
                all.filter(|run| filter.takes(run)).cloned().collect()
            }
        };
        runs.sort_by_key(|run| if filter.oldest_first { run.id.0 } else { -run.id.0 });
        runs.truncate(limit);
        runs.into_iter().map(listed).collect()
    }

    /// The runs that the search index finds.
    fn found_by(&self, search: &Search, namespace: Option<&Namespace>) -> BTreeSet<RunId> {
        let Some(namespace) = namespace else { return BTreeSet::new() };
        let with_word = |word: &str| -> BTreeSet<RunId> {
            let first = RunTerm { namespace: namespace.clone(), term: Arc::from(word), run: RunId(i64::MIN) };
            let terms = self.rows.range((RowKey::Term(Arc::new(first)), ShardId(0))..);
            let runs = terms.map_while(|(_, row)| match row {
                Row::Term(term) if term.namespace == *namespace && term.term.starts_with(word) => {
                    Some(term.run)
                }
                _ => None,
            });
            runs.collect()
        };
        let sets = search.words().map(with_word);
        sets.reduce(|all, some| all.intersection(&some).copied().collect()).unwrap_or_default()
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

    pub(super) fn deleted_jobs(&self) -> impl Iterator<Item = &DeletedJob> {
        let from = (RowKey::DeletedJob(JobId(i64::MIN)), ShardId(0));
        self.rows
            .range(from..)
            .map_while(|(_, row)| if let Row::DeletedJob(job) = row { Some(job) } else { None })
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
}
