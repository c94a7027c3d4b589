//! What endpoints list and show. Nothing here changes a row.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::alert::Incident;
use punctual_core::change::{DeadLetter, DeletedJob, Found, Revision, RunRecord, Skip, Want};
use punctual_core::hold::HoldRecord;
use punctual_core::ids::{Epoch, IncidentId, JobId, RunId, ShardId};
use punctual_core::job::Job;
use punctual_core::lock::Lock;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueRecord};
use punctual_core::run::{Run, Status, Trigger};
use punctual_core::schedule::calendar;
use punctual_core::search::Search;
use punctual_core::statistics::{Counts, Period};
use punctual_core::workflow::{Approval, ApprovalKey, StepRecord};
use punctual_core::{Timestamp, log};

use crate::Result;
use crate::address::Durability;

/// What endpoints list and show.
#[async_trait]
pub trait Reads: Send + Sync + fmt::Debug {
    /// How many shards this store was created with. It never changes.
    fn shards(&self) -> u16;

    /// Rows by key, as committed. The answer leaves out rows that do not exist.
    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found>;

    /// What an acknowledged commit survives.
    fn durability(&self) -> Durability {
        Durability::Full
    }

    /// Queues of a namespace (`None`: of all), in order of (namespace, name), after the given one.
    async fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>>;

    /// Messages of one queue, queued or not, in order of their places, after the given one. A page ends early as in
    /// `backlog`.
    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>>;

    /// Queued messages of one queue, starting at the given end. The answer ends early as in `backlog`.
    async fn queued_messages(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>>;

    /// The epoch and the number of commits of every shard, in their order. A shard whose numbers are the same has not
    /// changed.
    async fn commits(&self) -> Result<Vec<(Epoch, u64)>>;

    /// Namespaces with a job or a queue, in order of their names, after the given one. At most
    /// [`NAMESPACE_COUNT_MAX`] jobs and queues are counted in each.
    async fn namespaces(&self, after: Option<&Namespace>, limit: usize) -> Result<Vec<NamespaceCounts>>;

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>>;

    /// Jobs in order of (namespace, name), after the given one.
    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>>;

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>>;

    /// The steps of a run in the order of their keys, after the given step and item.
    async fn steps(
        &self,
        run: RunId,
        after: Option<(u32, Option<u32>)>,
        limit: usize,
    ) -> Result<Vec<Arc<StepRecord>>>;

    /// The steps that wait for an approval, of a namespace or (`None`) of all, in order of (namespace, run, step), after the
    /// given one.
    async fn approvals(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&ApprovalKey>,
        limit: usize,
    ) -> Result<Vec<Approval>>;

    /// The locks of a namespace that are held, in order of their names, after the given one.
    async fn locks(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Arc<Lock>>>;
    /// The holds of all shards, in order of (shard, number), with those that have just ended.
    async fn holds(&self) -> Result<Vec<Arc<HoldRecord>>>;
    /// Incidents that match, newest first, before the given one.
    async fn incidents(
        &self,
        filter: &IncidentFilter,
        before: Option<IncidentId>,
        limit: usize,
    ) -> Result<Vec<Arc<Incident>>>;

    /// Runs that match, newest id first unless the filter says otherwise, after the given one in that order. A long
    /// result is cut to its end ([`Run::abridge`]): a page of whole results would not fit into memory.
    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>>;

    /// The newest runs of each of these jobs, at most `limit` a job, live or ended: by job, newest first. Child runs are left
    /// out, and long results are cut as in `runs`.
    async fn last_runs(&self, jobs: &[JobId], limit: usize) -> Result<Vec<Arc<Run>>>;

    /// How many runs match the filter, for each of its statuses (all, if it names none), in their order. A count ends at `limit`, or when the
    /// backend has read so many rows that going on would take long; then it is not `complete`.
    async fn count_runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<StatusCount>>;

    /// Dead letters that match, oldest first, after the given one.
    async fn dead_letters(
        &self,
        filter: &LetterFilter,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>>;

    /// Deleted jobs whose runs or skip records may still be kept, in order of id, after the given one. With `named`,
    /// only the jobs with that name; there may be several.
    async fn deleted_jobs(
        &self,
        named: Option<(&Namespace, &Name)>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<DeletedJob>>;

    /// Records of due times of a job that were skipped, newest revision and newest due time first, before the given
    /// (revision, from).
    async fn skips(&self, job: JobId, before: Option<(u32, Timestamp)>, limit: usize) -> Result<Vec<Skip>>;

    /// One revision of a job.
    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>>;

    /// Revisions of a job, newest first, before the given one.
    async fn revisions(&self, job: JobId, before: Option<u32>, limit: usize) -> Result<Vec<Arc<Revision>>>;

    async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<calendar::Record>>>;

    /// Calendars in order of (namespace, name), after the given one.
    async fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<calendar::Record>>>;

    async fn stats(&self) -> Result<Stats>;

    /// Counts of ended runs by bucket, in order of time. Buckets in which nothing ended or fired are left out.
    async fn statistics(&self, filter: &StatisticsFilter) -> Result<Vec<(Timestamp, Counts)>>;

    /// Output of a run in order of its places, after the given one.
    async fn read_logs(
        &self,
        run: RunId,
        after: Option<log::ChunkPosition>,
        limit: usize,
    ) -> Result<Vec<log::Chunk>>;
}

/// How many runs have a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusCount {
    pub status: Status,
    pub runs: u64,
    /// False means that there may be more.
    pub complete: bool,
}

/// The most jobs and queues counted in one namespace: counting more would take long.
pub const NAMESPACE_COUNT_MAX: usize = 10_000;

/// A namespace and how much is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceCounts {
    pub namespace: Namespace,
    pub jobs: u64,
    pub queues: u64,
}

/// An end of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The message that is taken next comes first.
    First,
    /// The message that is taken last comes first.
    Last,
}

#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    pub namespace: Option<Namespace>,
    /// Only jobs that name this calendar. Needs `namespace`, because a calendar belongs to one.
    pub calendar: Option<Name>,
}

#[derive(Debug, Clone, Default)]
pub struct CalendarFilter {
    pub namespace: Option<Namespace>,
    /// Only calendars of which a job may still follow an older version.
    pub unsettled: bool,
}

#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub namespace: Option<Namespace>,
    /// Empty means any job, and runs without a job too.
    pub jobs: Vec<JobId>,
    /// Empty means any status.
    pub statuses: Vec<Status>,
    /// Runs created in [since, until).
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub oldest_first: bool,
    pub children: Children,
    /// Empty means any trigger.
    pub triggers: Vec<Trigger>,
    /// Only runs with this key, whether or not the key has expired.
    pub key: Option<Arc<str>>,
    /// Only runs that the search index finds. Needs `namespace`, because the index is by namespace.
    pub search: Option<Search>,
}

/// What a listing shows of child runs: the parts of split runs and the steps of workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Children {
    /// Child runs are listed like all others.
    #[default]
    Included,
    LeftOut,
    /// Only the child runs of this run.
    Of(RunId),
}

#[derive(Debug, Clone, Default)]
pub struct LetterFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<Name>,
    /// Only dead letters from this instant on.
    pub since: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub struct IncidentFilter {
    pub namespace: Option<Namespace>,
    pub job: Option<Name>,
    /// Only incidents that are open.
    pub is_open: bool,
}

/// Which statistics to read. Buckets that begin in [since, until) are read; the caller bounds the span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatisticsFilter {
    pub of: StatisticsOf,
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Whose runs are counted, and by which period. A job is counted by hours only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatisticsOf {
    /// All namespaces together.
    All(Period),
    Namespace(Namespace, Period),
    Job(Namespace, Name),
}

impl StatisticsOf {
    /// The length of a bucket.
    pub fn period(&self) -> Duration {
        match self {
            StatisticsOf::All(period) | StatisticsOf::Namespace(_, period) => period.length(),
            StatisticsOf::Job(..) => Period::Hour.length(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
    pub dead_letters: u64,
    pub queues: u64,
    /// Messages of all queues, queued or not, summed from the counts in the queue rows.
    pub messages: u64,
}
