//! The tables that commits write: their columns, and the values of a row in the order of its columns.
//!
//! Every change of a batch is one row of one [`Write`]. A backend makes its statements from the descriptions here.

use std::sync::Arc;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::name::Name;
use punctual_core::queue::{Message, QueueRecord};
use punctual_core::run::Run;

use super::value::Value;
use crate::row_counts::RowCounts;
use crate::{Result, codec, live_key};

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns of the primary key come first.
    pub(crate) key: usize,
    /// The name of each column, and its type as PostgreSQL calls it.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

/// How rows of a table are written. Columns are named by their index.
#[derive(Debug)]
pub(crate) enum Action {
    Insert,
    /// The stored columns in `and` must compare with the new ones.
    Update {
        set: &'static [usize],
        and: &'static [(usize, &'static str)],
    },
    Delete,
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) table: &'static Table,
    pub(crate) action: Action,
}

impl Write {
    /// The columns whose values the statement needs, in order.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let key = 0..self.table.key;
        let mut columns: Vec<usize> = match &self.action {
            Action::Insert => (0..self.table.columns.len()).collect(),
            Action::Update { set, and } => {
                key.chain(set.iter().copied()).chain(and.iter().map(|(column, _)| *column)).collect()
            }
            Action::Delete => key.collect(),
        };
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    pub(crate) fn name(&self, column: usize) -> &'static str {
        self.table.columns[column].0
    }
}

macro_rules! columns {
    ($($name:ident $kind:ident),*) => {
        &[$((stringify!($name), stringify!($kind))),*]
    };
}

/// Each column is written by `fires`, `edits` or only by an insert, in this order.
static JOBS: Table = Table {
    name: "jobs",
    key: 1,
    columns: columns![
        id int8, revision int8, paused int2, updated_at int8, fired_through int8, next_due int8,
        wake_at int8, fires text, zone_data text, keep_runs int8, keep_days int8, definition text,
        calendars text, shard int2, namespace text, name text, created_at int8
    ],
};

static REVISIONS: Table = Table {
    name: "revisions",
    key: 2,
    columns: columns![job int8, revision int8, made_at int8, definition text, state text],
};

static RUNS: Table = Table {
    name: "runs",
    key: 1,
    columns: columns![
        place int8, shard int2, wake_at int8, job int8, status int2, namespace text, run_key bytea,
        body bytea
    ],
};

static HISTORY: Table = Table {
    name: "history",
    key: 1,
    columns: columns![id int8, job int8, status int2, finished_at int8, namespace text, run_key bytea, body bytea],
};

static DEAD_LETTERS: Table = Table {
    name: "dead_letters",
    key: 1,
    columns: columns![run int8, namespace text, job text, died_at int8],
};

static UNIQUES: Table = Table {
    name: "uniques",
    key: 2,
    columns: columns![shard int2, unique_key bytea, run int8, expires_at int8],
};

static SKIPS: Table = Table {
    name: "skips",
    key: 3,
    columns: columns![job int8, revision int8, from_due int8, to_due int8, reason text, made_at int8],
};

/// An update writes all columns: the same batch may delete a queue and reuse its number for another.
static QUEUES: Table = Table {
    name: "queues",
    key: 2,
    columns: columns![
        shard int2, number int8, namespace text, name bytea, created_at int8, paused_input int2,
        paused_output int2, queued int8, messages int8
    ],
};

/// The body of a message never changes.
static MESSAGES: Table = Table {
    name: "messages",
    key: 4,
    columns: columns![shard int2, queue int8, rank_no int2, number int8, wake_at int8, queued int2, head bytea, body bytea],
};

const fn insert(table: &'static Table) -> Write {
    Write { table, action: Action::Insert }
}

const fn update(table: &'static Table, set: &'static [usize]) -> Write {
    Write { table, action: Action::Update { set, and: &[] } }
}

const fn delete(table: &'static Table) -> Write {
    Write { table, action: Action::Delete }
}

/// An index into [`WRITES`].
pub(crate) type WriteId = usize;

pub(crate) const DELETE_JOB: WriteId = 0;
/// A fire: the definition of a revision never changes, so it is not written again.
pub(crate) const FIRE_JOB: WriteId = 1;
pub(crate) const EDIT_JOB: WriteId = 2;
pub(crate) const INSERT_JOB: WriteId = 3;
const REVISION: WriteId = 4;
const RUN: WriteId = 7;
pub(crate) const DELETE_RUN: WriteId = RUN;
pub(crate) const INSERT_RUN: WriteId = RUN + 2;
const OF_HISTORY: WriteId = 10;
pub(crate) const DELETE_HISTORY: WriteId = OF_HISTORY;
pub(crate) const INSERT_HISTORY: WriteId = OF_HISTORY + 2;
const DEAD_LETTER: WriteId = 13;
const UNIQUE: WriteId = 16;
const SKIP: WriteId = 19;
const QUEUE: WriteId = 22;
const MESSAGE: WriteId = 25;
pub(crate) const INSERT_MESSAGE: WriteId = MESSAGE + 2;
pub(crate) const UPDATE_MESSAGE: WriteId = MESSAGE + 1;
pub(crate) const DELETE_MESSAGE: WriteId = MESSAGE;

/// Every write, in the order in which a commit sends them: of each table first deletes, then updates, then inserts, so
/// that a name is free again for another job in the same batch.
pub(crate) static WRITES: [Write; 28] = [
    delete(&JOBS),
    Write {
        table: &JOBS,
        action: Action::Update { set: &[2, 3, 4, 5, 6, 7, 8], and: &[(1, "="), (4, "<=")] },
    },
    Write {
        table: &JOBS,
        action: Action::Update { set: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], and: &[(4, "<=")] },
    },
    insert(&JOBS),
    delete(&REVISIONS),
    update(&REVISIONS, &[2, 3, 4]),
    insert(&REVISIONS),
    delete(&RUNS),
    update(&RUNS, &[2, 4, 7]),
    insert(&RUNS),
    delete(&HISTORY),
    update(&HISTORY, &[2, 3, 6]),
    insert(&HISTORY),
    delete(&DEAD_LETTERS),
    update(&DEAD_LETTERS, &[1, 2, 3]),
    insert(&DEAD_LETTERS),
    delete(&UNIQUES),
    update(&UNIQUES, &[2, 3]),
    insert(&UNIQUES),
    delete(&SKIPS),
    update(&SKIPS, &[3, 4, 5]),
    insert(&SKIPS),
    delete(&QUEUES),
    update(&QUEUES, &[2, 3, 4, 5, 6, 7, 8]),
    insert(&QUEUES),
    delete(&MESSAGES),
    update(&MESSAGES, &[4, 5, 6]),
    insert(&MESSAGES),
];

/// The columns of a row, as far as the write needs them.
pub(crate) type Values<'b> = Vec<Value<'b>>;

/// What a change writes.
pub(crate) fn write_of<'b>(
    batch: &'b Batch,
    key: &'b RowKey,
    change: &'b Change,
) -> Result<(WriteId, Values<'b>)> {
    match change {
        Change::Delete => Ok(deleted(batch.shard, key)),
        Change::Insert(Row::Job(job)) => Ok((INSERT_JOB, inserted_job(batch, job)?)),
        Change::Update(Row::Job(job)) if has_revision(batch, job) => Ok((EDIT_JOB, edited_job(batch, job)?)),
        Change::Update(Row::Job(job)) => Ok((FIRE_JOB, fired_job(job)?)),
        Change::Update(row) => of_row(batch.shard, row).map(|(delete, values)| (delete + 1, values)),
        Change::Insert(row) => of_row(batch.shard, row).map(|(delete, values)| (delete + 2, values)),
    }
}

fn deleted(shard: ShardId, key: &RowKey) -> (WriteId, Values<'_>) {
    match key {
        RowKey::Job(id) => (DELETE_JOB, vec![id.0.into()]),
        RowKey::Revision(id, revision) => (REVISION, vec![id.0.into(), (*revision).into()]),
        RowKey::Run(id) => (DELETE_RUN, vec![live_key::of(*id).into()]),
        RowKey::History(id) => (DELETE_HISTORY, vec![id.0.into()]),
        RowKey::DeadLetter(id) => (DEAD_LETTER, vec![id.0.into()]),
        RowKey::Unique(key) => (UNIQUE, vec![shard.0.into(), key.as_bytes().into()]),
        RowKey::Skip(id, revision, from) => (SKIP, vec![id.0.into(), (*revision).into(), (*from).into()]),
        RowKey::Queue(number) => (QUEUE, vec![shard.0.into(), number.0.into()]),
        RowKey::Message(queue, place) => {
            (DELETE_MESSAGE, vec![shard.0.into(), queue.0.into(), place.rank.into(), place.number.into()])
        }
    }
}

/// The write that deletes such a row, and the values of all its columns.
fn of_row(shard: ShardId, row: &Row) -> Result<(WriteId, Values<'_>)> {
    Ok(match row {
        Row::Job(job) => (DELETE_JOB, fired_job(job)?),
        Row::Revision(revision) => {
            let (definition, state) = (codec::json(&revision.definition)?, codec::json(&revision.state)?);
            let key = [revision.job.0.into(), revision.revision.into(), revision.at.into()];
            (REVISION, key.into_iter().chain([definition.into(), state.into()]).collect())
        }
        Row::Run(run) => (RUN, live_run(run)?),
        Row::History(run) => (OF_HISTORY, ended_run(run)?),
        Row::DeadLetter(letter) => {
            let job = letter.job.as_ref().map(Name::as_str);
            (
                DEAD_LETTER,
                vec![letter.run.0.into(), letter.namespace.as_str().into(), job.into(), letter.at.into()],
            )
        }
        Row::Unique(unique) => {
            let (key, holder) = (unique.key.as_bytes(), unique.holder.as_column());
            (UNIQUE, vec![shard.0.into(), key.into(), holder.into(), unique.expires_at.into()])
        }
        Row::Skip(skip) => (
            SKIP,
            vec![
                skip.job.0.into(),
                skip.revision.into(),
                skip.from.into(),
                skip.to.into(),
                codec::json(&skip.reason)?.into(),
                skip.at.into(),
            ],
        ),
        Row::Queue(queue) => (QUEUE, of_queue(shard, queue)),
        Row::Message(message) => (MESSAGE, of_message(message)?),
    })
}

fn live_run(run: &Run) -> Result<Values<'_>> {
    Ok(vec![
        live_key::of(run.id).into(),
        run.shard().0.into(),
        run.wake_at().into(),
        run.job().map(|job| job.0).into(),
        codec::status_number(run.status()).into(),
        run.namespace.as_str().into(),
        run.key.as_deref().map(str::as_bytes).into(),
        body(run)?,
    ])
}

fn ended_run(run: &Run) -> Result<Values<'_>> {
    Ok(vec![
        run.id.0.into(),
        run.job().map(|job| job.0).into(),
        codec::status_number(run.status()).into(),
        run.finished_at.unwrap_or(run.created_at).into(),
        run.namespace.as_str().into(),
        run.key.as_deref().map(str::as_bytes).into(),
        body(run)?,
    ])
}

/// Initial buffer size; most runs fit.
const BODY_BYTES: usize = 256;
/// Initial buffer size; most heads fit.
const HEAD_BYTES: usize = 32;

fn body(run: &Run) -> Result<Value<'static>> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    codec::write_run(run, &mut body)?;
    Ok(body.into())
}

fn of_queue(shard: ShardId, queue: &QueueRecord) -> Values<'_> {
    vec![
        shard.0.into(),
        queue.number.0.into(),
        queue.key.namespace.as_str().into(),
        queue.key.name.as_str().as_bytes().into(),
        queue.created_at.into(),
        queue.pause.input.into(),
        queue.pause.output.into(),
        queue.queued.into(),
        queue.messages.into(),
    ]
}

pub(crate) fn of_message(message: &Arc<Message>) -> Result<Values<'_>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    codec::write_head(message, &mut head)?;
    let place = message.position();
    Ok(vec![
        message.id.shard().0.into(),
        message.id.queue.0.into(),
        place.rank.into(),
        place.number.into(),
        message.wake_at().into(),
        message.is_queued().into(),
        head.into(),
        (&message.body[..]).into(),
    ])
}

fn has_revision(batch: &Batch, job: &Job) -> bool {
    let revision = batch.changes.get(&RowKey::Revision(job.id, job.revision));
    matches!(revision, Some(Change::Insert(_) | Change::Update(_)))
}

fn fired_job(job: &Job) -> Result<Values<'_>> {
    let cursor = &job.cursor;
    Ok(vec![
        job.id.0.into(),
        job.revision.into(),
        job.paused.into(),
        job.updated_at.into(),
        cursor.fired_through.into(),
        cursor.next_due.into(),
        cursor.wake_at.into(),
        codec::json(&cursor.fires)?.into(),
        cursor.zone_data.as_deref().into(),
    ])
}

/// All columns that may change.
pub(crate) fn edited_job<'b>(batch: &Batch, job: &'b Job) -> Result<Values<'b>> {
    let mut values = fired_job(job)?;
    values.extend([
        job.definition.keep.runs.into(),
        job.definition.keep.days.into(),
        codec::definition_beside(batch, job)?.into(),
        codec::calendar_names(&job.definition)?.into(),
    ]);
    Ok(values)
}

fn inserted_job<'b>(batch: &'b Batch, job: &'b Job) -> Result<Values<'b>> {
    let mut values = edited_job(batch, job)?;
    let (namespace, name) = (job.namespace.as_str(), job.name.as_str());
    values.extend([batch.shard.0.into(), namespace.into(), name.into(), job.created_at.into()]);
    Ok(values)
}

/// The rows of several batches, at most one batch of each shard, by the write they need.
#[derive(Debug, Default)]
pub(crate) struct Sorted<'b> {
    rows: [Vec<Values<'b>>; WRITES.len()],
}

impl<'b> Sorted<'b> {
    pub(crate) fn add(&mut self, write: WriteId, values: Values<'b>) {
        self.rows[write].push(values);
    }

    pub(crate) fn add_batch(&mut self, batch: &'b Batch) -> Result<()> {
        for (key, change) in batch.changes.iter() {
            let (write, values) = write_of(batch, key, change)?;
            self.add(write, values);
        }
        Ok(())
    }

    /// The rows of each write that has any, in the order in which they are sent.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (WriteId, &[Values<'b>])> {
        self.rows.iter().map(Vec::as_slice).enumerate().filter(|(_, rows)| !rows.is_empty())
    }

    pub(crate) fn rows(&self, write: WriteId) -> &[Values<'b>] {
        &self.rows[write]
    }
}

/// Batches of different shards are written together, batches of one shard one after the other.
pub(crate) fn in_groups(batches: &[Batch]) -> Result<Vec<(Vec<&Batch>, Sorted<'_>)>> {
    let mut groups: Vec<(Vec<&Batch>, Sorted<'_>)> = Vec::new();
    let mut left: Vec<&Batch> = batches.iter().collect();
    while !left.is_empty() {
        let (mut group, mut later): (Vec<&Batch>, Vec<&Batch>) = (Vec::new(), Vec::new());
        for batch in left {
            let is_taken = group.iter().any(|other| other.shard == batch.shard);
            if is_taken { later.push(batch) } else { group.push(batch) }
        }
        // Every transaction takes locks in shard order, so there is no deadlock.
        group.sort_unstable_by_key(|batch| batch.shard);
        let mut sorted = Sorted::default();
        group.iter().try_for_each(|batch| sorted.add_batch(batch))?;
        groups.push((group, sorted));
        left = later;
    }
    Ok(groups)
}

/// The columns of a shard's row that a fence compares or changes.
pub(crate) const FENCE: [&str; 8] =
    ["shard", "epoch", "commit_no", "last_id", "jobs", "live_runs", "history_runs", "dead_letters"];

/// Their values: what the row must have, its new last id, and what is added to its counts.
pub(crate) fn fence_of(batch: &Batch) -> Values<'static> {
    let RowCounts { jobs, live_runs, history_runs, dead_letters } = RowCounts::of(&batch.changes);
    let (shard, epoch, commit, last_id) = (batch.shard.0, batch.epoch.0, batch.commit, batch.last_id);
    let added = [jobs, live_runs, history_runs, dead_letters].map(Value::from);
    [shard.into(), epoch.into(), commit.into(), last_id.into()].into_iter().chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writes_have_the_order_that_their_numbers_say() {
        let name = |write: WriteId| WRITES[write].table.name;
        let rest = [REVISION, RUN, OF_HISTORY, DEAD_LETTER, UNIQUE, SKIP, QUEUE, MESSAGE];
        for first in rest {
            assert!((first..first + 3).all(|write| name(write) == name(first)), "{}", name(first));
            assert!(matches!(WRITES[first].action, Action::Delete));
            assert!(matches!(WRITES[first + 1].action, Action::Update { .. }));
            assert!(matches!(WRITES[first + 2].action, Action::Insert));
        }
    }
}
