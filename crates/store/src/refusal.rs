//! The refusals that every backend words in the same way.

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::queue::MessagePosition;

use crate::{Error, Result};

fn refused(shard: ShardId, what: String) -> Error {
    Error::Refused { shard, what }
}

pub(crate) fn exists(shard: ShardId, key: &RowKey) -> Error {
    refused(shard, format!("{} exists already", Named(key)))
}

pub(crate) fn missing(shard: ShardId, key: &RowKey) -> Error {
    refused(shard, format!("{} is not there", Named(key)))
}

pub(crate) fn name_taken(shard: ShardId, key: &RowKey) -> Error {
    refused(shard, format!("{} bears a name that another job has", Named(key)))
}

pub(crate) fn cursor_back(shard: ShardId, job: JobId) -> Error {
    refused(shard, format!("the cursor of job {job} would go back"))
}

pub(crate) fn no_such_shard(shard: ShardId) -> Error {
    refused(shard, "the store has no such shard".to_owned())
}

/// Refuses rows that belong to another shard: two leaders could change them at once.
pub(crate) fn check_shards(batches: &[Batch], shards: u16) -> Result<()> {
    batches.iter().try_for_each(|batch| {
        let mut changes = batch.changes.iter();
        changes.try_for_each(|(key, change)| check_shard(batch.shard, shards, key, change))
    })
}

fn check_shard(shard: ShardId, shards: u16, key: &RowKey, change: &Change) -> Result<()> {
    let of = match key {
        RowKey::Job(id) | RowKey::DeletedJob(id) | RowKey::Revision(id, _) | RowKey::Skip(id, ..) => {
            id.shard()
        }
        RowKey::Run(id) | RowKey::History(id) | RowKey::DeadLetter(id) => id.shard(),
        RowKey::Step(key) => key.run.shard(),
        RowKey::Lock(fence) => fence.shard(),
        RowKey::Listener(number)
        | RowKey::Hold(number)
        | RowKey::Message(_, MessagePosition { number, .. }) => RunId(*number).shard(),
        RowKey::Approval(key) => key.run.shard(),
        RowKey::Incident(id) => id.shard(),
        RowKey::Statistics(key) => key.shard,
        RowKey::Term(term) => term.run.shard(),
        RowKey::Queue(_) => match change {
            Change::Insert(Row::Queue(queue)) | Change::Update(Row::Queue(queue)) => queue.key.shard(shards),
            _ => shard,
        },
        RowKey::Unique(_) | RowKey::RecentCounts(_) => shard,
    };
    if of == shard { Ok(()) } else { Err(refused(shard, format!("{} belongs to shard {of}", Named(key)))) }
}

/// A run cannot be executed without its definition.
pub(crate) fn no_revision(run: RunId, job: JobId, revision: u32) -> Error {
    Error::Unusable(format!(
        "run {run} needs revision {revision} of job {job}, which the store does not have"
    ))
}

pub(crate) fn no_step(run: RunId, job: JobId, step: &str) -> Error {
    Error::Unusable(format!(
        "run {run} executes the step `{step}`, which its revision of job {job} does not have"
    ))
}

/// Displays a row's key in an error message.
struct Named<'a>(&'a RowKey);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            RowKey::Job(id) => write!(f, "job {id}"),
            RowKey::DeletedJob(id) => write!(f, "deleted job {id}"),
            RowKey::Revision(id, revision) => write!(f, "revision {revision} of job {id}"),
            RowKey::Run(id) => write!(f, "run {id}"),
            RowKey::History(id) => write!(f, "finished run {id}"),
            RowKey::DeadLetter(id) => write!(f, "dead letter {id}"),
            RowKey::Step(key) => match key.item {
                None => write!(f, "step {} of run {}", key.step, key.run),
                Some(item) => write!(f, "item {item} of step {} of run {}", key.step, key.run),
            },
            RowKey::Listener(number) => write!(f, "listener {number}"),
            RowKey::Lock(fence) => write!(f, "the lock under fence {fence}"),
            RowKey::Hold(number) => write!(f, "hold {number}"),
            RowKey::Approval(key) => write!(f, "the approval of step {} of run {}", key.step, key.run),
            RowKey::Incident(id) => write!(f, "incident {id}"),
            RowKey::Unique(key) => write!(f, "key `{key}`"),
            RowKey::Skip(id, _, from) => write!(f, "the skip record of job {id} from {from}"),
            RowKey::Statistics(key) => {
                write!(f, "the statistics of {} at {}", key.bucket.namespace, key.bucket.at)
            }
            RowKey::RecentCounts(page) => write!(f, "page {page} of the recent counts"),
            RowKey::Term(term) => write!(f, "the term `{}` of run {}", term.term, term.run),
            RowKey::Queue(number) => write!(f, "queue {}", number.0),
            RowKey::Message(queue, place) => write!(f, "message {} of queue {}", place.number, queue.0),
        }
    }
}
