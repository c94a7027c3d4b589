//! The changes that the engine asks the store to write.
//!
//! A batch has at most one change per row. Several changes of a row are folded: a run that is created and assigned in
//! one batch is one insert, and a row that is created and deleted in it is no change.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::alert::Incident;
use crate::hold::HoldRecord;
use crate::ids::{Epoch, Fence, IncidentId, JobId, RunId, ShardId, first_id_of};
use crate::job::{Cursor, Definition, Job, State};
use crate::lock::Lock;
use crate::name::{Name, Namespace};
use crate::queue::{Message, MessageId, MessagePosition, QueueNumber, QueueRecord};
use crate::run::Run;
use crate::search::RunTerm;
use crate::statistics::{RecentCounts, Statistics, StatisticsKey};
use crate::topic::ListenerRecord;
use crate::workflow::{Approval, ApprovalKey, StepKey, StepRecord};

pub use crate::skip_reason::SkipReason;

/// The primary key of a row, in the order in which a batch is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    Job(JobId),
    DeletedJob(JobId),
    Revision(JobId, u32),
    /// A run that has not ended.
    Run(RunId),
    /// A run that has ended.
    History(RunId),
    DeadLetter(RunId),
    Step(StepKey),
    /// The number of the listener.
    Listener(i64),
    Lock(Fence),
    /// The number of the hold.
    Hold(i64),
    Incident(IncidentId),
    Approval(Arc<ApprovalKey>),
    Unique(Arc<str>),
    /// The job, the revision and the first due time.
    Skip(JobId, u32, Timestamp),
    Statistics(Arc<StatisticsKey>),
    /// A page of recent counts of the shard.
    RecentCounts(u32),
    /// An entry of the search index.
    Term(Arc<RunTerm>),
    Queue(QueueNumber),
    Message(QueueNumber, MessagePosition),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    Job(Arc<Job>),
    DeletedJob(DeletedJob),
    Revision(Arc<Revision>),
    Run(Arc<Run>),
    History(Arc<Run>),
    DeadLetter(DeadLetter),
    Step(Arc<StepRecord>),
    Listener(Arc<ListenerRecord>),
    Lock(Arc<Lock>),
    Hold(Arc<HoldRecord>),
    Incident(Arc<Incident>),
    Approval(Approval),
    Unique(UniqueKey),
    Skip(Skip),
    Statistics(Arc<Statistics>),
    RecentCounts(RecentCounts),
    Term(Arc<RunTerm>),
    Queue(QueueRecord),
    Message(Arc<Message>),
}

/// One revision of a job: every edit, pause, resume and the deletion makes one. Together they tell what was due at any
/// time. They are kept as long as the job, and after its deletion as long as its runs and skip records.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub job: JobId,
    pub revision: u32,
    pub definition: Arc<Definition>,
    /// When it began: it decides every due time from here to the next revision.
    pub at: Timestamp,
    pub state: State,
}

/// A deleted job whose runs or skip records are still kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedJob {
    pub id: JobId,
    pub namespace: Namespace,
    pub name: Name,
}

impl DeletedJob {
    pub fn of(job: &Job) -> DeletedJob {
        DeletedJob { id: job.id, namespace: job.namespace.clone(), name: job.name.clone() }
    }

    /// The job as it last was. `first` is its first revision, `last` the one that deleted it.
    pub fn as_job(&self, first: &Revision, last: &Revision) -> Job {
        Job {
            id: self.id,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            revision: last.revision,
            definition: Arc::clone(&last.definition),
            pause: None,
            failures: 0,
            watch: None,
            created_at: first.at,
            updated_at: last.at,
            cursor: Cursor { fired_through: last.at, ..Cursor::default() },
        }
    }
}

/// A run that failed for good and waits to be replayed or discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub run: RunId,
    pub namespace: Namespace,
    pub job: Option<Name>,
    pub at: Timestamp,
}

/// A unique or idempotency key and its holder. It has its own expiry: pruning the run does not free it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey {
    pub key: Arc<str>,
    pub holder: Holder,
    pub expires_at: Timestamp,
}

/// A unique key that begins with this prefix stores what a rate has used up. Its holder is `Nobody`.
pub const RATE_PREFIX: &str = "rate/";

/// Who holds a unique key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Run(RunId),
    /// The number of a message.
    Message(i64),
    /// No message may ever be added under this key of the shard, or the key stores what a rate has used up.
    Nobody(ShardId),
}

impl Holder {
    pub fn shard(self) -> ShardId {
        match self {
            Holder::Run(run) => run.shard(),
            Holder::Message(number) => RunId(number).shard(),
            Holder::Nobody(shard) => shard,
        }
    }

    /// The number that stores write for the holder. A run has its id, a message its negated
    /// number, and `Nobody` the first id of the shard, which no run ever gets.
    pub fn as_column(self) -> i64 {
        match self {
            Holder::Run(run) => run.0,
            Holder::Message(number) => -number,
            Holder::Nobody(shard) => first_id_of(shard),
        }
    }

    pub fn from_column(column: i64) -> Holder {
        let run = RunId(column);
        match column {
            message if message < 0 => Holder::Message(-message),
            nobody if nobody == first_id_of(run.shard()) => Holder::Nobody(run.shard()),
            _ => Holder::Run(run),
        }
    }
}

/// A range of skipped due times, from `from` to `to`, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    pub job: JobId,
    /// The revision whose schedule gives the due times in the range.
    pub revision: u32,
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: SkipReason,
    pub at: Timestamp,
}

impl Row {
    pub fn key(&self) -> RowKey {
        match self {
            Row::Job(job) => RowKey::Job(job.id),
            Row::DeletedJob(job) => RowKey::DeletedJob(job.id),
            Row::Revision(revision) => RowKey::Revision(revision.job, revision.revision),
            Row::Run(run) => RowKey::Run(run.id),
            Row::History(run) => RowKey::History(run.id),
            Row::DeadLetter(letter) => RowKey::DeadLetter(letter.run),
            Row::Step(step) => RowKey::Step(step.key),
            Row::Listener(listener) => RowKey::Listener(listener.number),
            Row::Lock(lock) => RowKey::Lock(lock.fence),
            Row::Hold(hold) => RowKey::Hold(hold.number),
            Row::Incident(incident) => RowKey::Incident(incident.id),
            Row::Approval(approval) => RowKey::Approval(Arc::clone(&approval.key)),
            Row::Unique(unique) => RowKey::Unique(Arc::clone(&unique.key)),
            Row::Skip(skip) => RowKey::Skip(skip.job, skip.revision, skip.from),
            Row::Statistics(row) => RowKey::Statistics(Arc::clone(&row.key)),
            Row::RecentCounts(recent) => RowKey::RecentCounts(recent.page),
            Row::Term(term) => RowKey::Term(Arc::clone(term)),
            Row::Queue(queue) => RowKey::Queue(queue.number),
            Row::Message(message) => RowKey::Message(message.id.queue, message.position()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The row must not exist, else the batch is refused.
    Insert(Row),
    /// The row must exist and a job's cursor must not go back, else the batch is refused.
    Update(Row),
    /// The row must exist, else the batch is refused.
    Delete,
}

/// The changes of one shard in one batch, folded, in key order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes(BTreeMap<RowKey, Change>);

impl Changes {
    pub fn insert(&mut self, row: Row) {
        let key = row.key();
        match self.0.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Change::Insert(row));
            }
            Entry::Occupied(mut place) => match place.get() {
                Change::Delete => {
                    place.insert(Change::Update(row));
                }
                change => panic!("a row was inserted twice in one batch: {change:?}"),
            },
        }
    }

    pub fn update(&mut self, row: Row) {
        let key = row.key();
        match self.0.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Change::Update(row));
            }
            Entry::Occupied(mut place) => match place.get_mut() {
                Change::Insert(old) | Change::Update(old) => *old = row,
                Change::Delete => panic!("a deleted row was updated: {row:?}"),
            },
        }
    }

    pub fn delete(&mut self, key: RowKey) {
        match self.0.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Change::Delete);
            }
            Entry::Occupied(mut place) => match place.get() {
                Change::Insert(_) => {
                    place.remove();
                }
                Change::Update(_) => {
                    place.insert(Change::Delete);
                }
                Change::Delete => panic!("a row was deleted twice in one batch"),
            },
        }
    }

    pub fn get(&self, key: &RowKey) -> Option<&Change> {
        self.0.get(key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&RowKey, &Change)> {
        self.0.iter()
    }
}

/// The changes of one shard for one commit: all or nothing, and only under its (epoch, commit).
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub shard: ShardId,
    pub epoch: Epoch,
    /// How many commits the shard row has seen in this epoch: the second part of the fence.
    pub commit: u64,
    /// The last id that the shard has made.
    pub last_id: i64,
    pub changes: Changes,
}

/// A row that a command needs and that may not be in memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    Job(Namespace, Name),
    Run(RunId),
    /// The steps of a run, without their items.
    Steps(RunId),
    Unique(Arc<str>),
    Message(MessageId),
    /// The ended runs of a job with a due time in a span of time that were made since the span began.
    DueRuns(DueSpan),
}

/// A span of due times of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueSpan {
    pub job: JobId,
    /// The beginning of the span, which belongs to it.
    pub from: Timestamp,
    /// The end of the span, which does not belong to it.
    pub to: Timestamp,
}

impl DueSpan {
    /// The due time that the run uses up, if it is in this span. A part, a step and a backfill use up none.
    pub fn due_of(&self, run: &Run) -> Option<DueRun> {
        let is_in = run.job() == Some(self.job) && run.is_whole() && (self.from..self.to).contains(&run.due);
        is_in.then_some(DueRun { job: self.job, due: run.due, run: run.id })
    }
}

/// A run of a job, by its due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRun {
    pub job: JobId,
    pub due: Timestamp,
    pub run: RunId,
}

/// A run as read from the store, with its definition and job.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    pub run: Arc<Run>,
    /// The definition of the revision it was made under; of a step's run, that of the step.
    pub definition: Arc<Definition>,
    /// The job as it is now. `None` means that the run has no job, or that the job was deleted.
    pub job: Option<Arc<Job>>,
    /// Whether it is a dead letter that was neither replayed nor discarded.
    pub dead_letter: bool,
}

/// The answer to a fetch. A wanted row that is not here does not exist.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    pub jobs: Vec<Arc<Job>>,
    pub runs: Vec<RunRecord>,
    /// In the order of their keys.
    pub steps: Vec<Arc<StepRecord>>,
    pub uniques: Vec<UniqueKey>,
    pub messages: Vec<Arc<Message>>,
    pub due_runs: Vec<DueRun>,
}

/// A shard as committed, without the runs that only wait for their due time.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub commit: u64,
    pub last_id: i64,
    pub runs: Vec<RunRecord>,
    /// The steps of every workflow among the runs that has begun or reuses steps, in the order of their keys.
    pub steps: Vec<Arc<StepRecord>>,
    pub listeners: Vec<Arc<ListenerRecord>>,
    pub locks: Vec<Arc<Lock>>,
    pub holds: Vec<Arc<HoldRecord>>,
    /// Also those that are over, until they are forgotten.
    pub incidents: Vec<Arc<Incident>>,
    /// Every queue, without its messages: these are read in pages.
    pub queues: Vec<QueueRecord>,
    /// All pages, without a gap.
    pub recent_counts: Vec<RecentCounts>,
    /// The keys that begin with [`RATE_PREFIX`].
    pub rates: Vec<UniqueKey>,
}

/// A place in the order of timers: wake time, then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerPosition {
    pub at: Timestamp,
    pub id: i64,
}

impl TimerPosition {
    pub const START: TimerPosition = TimerPosition { at: Timestamp::MIN, id: -1 };
}

/// The next timers of a shard: jobs, waiting runs and messages together, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimerPage {
    pub jobs: Vec<Arc<Job>>,
    pub runs: Vec<RunRecord>,
    pub messages: Vec<Arc<Message>>,
    /// The last place on this page. `None` means that there are no more timers.
    pub end: Option<TimerPosition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(run: i64, at: i64) -> Row {
        let at = Timestamp::from_millis(at);
        Row::DeadLetter(DeadLetter { run: RunId(run), namespace: Namespace::default(), job: None, at })
    }

    #[test]
    fn several_changes_of_a_row_fold_into_one() {
        let mut changes = Changes::default();
        changes.insert(letter(1, 1));
        changes.update(letter(1, 2));
        assert_eq!(changes.get(&RowKey::DeadLetter(RunId(1))), Some(&Change::Insert(letter(1, 2))));
        changes.delete(RowKey::DeadLetter(RunId(1)));
        assert!(changes.is_empty(), "a row that came and went is nothing");

        changes.update(letter(2, 1));
        changes.delete(RowKey::DeadLetter(RunId(2)));
        assert_eq!(changes.get(&RowKey::DeadLetter(RunId(2))), Some(&Change::Delete));
        changes.insert(letter(2, 3));
        assert_eq!(changes.get(&RowKey::DeadLetter(RunId(2))), Some(&Change::Update(letter(2, 3))));
    }

    #[test]
    fn changes_come_out_in_key_order() {
        let mut changes = Changes::default();
        for run in [5, 1, 3] {
            changes.insert(letter(run, 0));
        }
        let keys: Vec<_> = changes.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, [1, 3, 5].map(|run| RowKey::DeadLetter(RunId(run))));
    }
    #[test]
    fn a_holder_is_read_back_as_it_was_written() {
        let shard = ShardId(7);
        let id = crate::ids::IdMaker::new(shard, 0).next(Timestamp::from_millis(1_800_000_000_000));
        for holder in [Holder::Run(RunId(id)), Holder::Message(id), Holder::Nobody(shard)] {
            assert_eq!(Holder::from_column(holder.as_column()), holder);
            assert_eq!(holder.shard(), shard);
        }
    }
}
