//! The tables that commits write: their columns, and the values of a row in the order of its columns.
//!
//! Every change of a batch is one row of one [`Write`]. A backend makes its statements from the descriptions here.

mod rows;

use punctual_core::change::{Batch, Change, DeletedJob, Row, RowKey};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::name::Name;

use super::value::Value;
use crate::{Result, codec, ended_key, live_key};
use rows::{
    approval_key, ended_run, live_run, numbered, of_approval, of_incident, of_queue, of_step, of_term,
    step_key,
};
pub(crate) use rows::{of_message, statistics_key};

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
        id int8, revision int8, pause text, updated_at int8, fired_through int8, next_due int8,
        wake_at int8, fires text, zone_data text, failures int8, watch text, keep_runs int8, keep_days int8, definition text,
        calendars text, shard int2, namespace text, name text, created_at int8
    ],
};

static DELETED_JOBS: Table =
    Table { name: "deleted_jobs", key: 1, columns: columns![job int8, namespace text, name text] };

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
        parent int8, body bytea
    ],
};

static HISTORY: Table = Table {
    name: "history",
    key: 1,
    columns: columns![
        place int8, job int8, status int2, finished_at int8, namespace text, run_key bytea, parent int8, body bytea
    ],
};

static DEAD_LETTERS: Table = Table {
    name: "dead_letters",
    key: 1,
    columns: columns![run int8, namespace text, job text, died_at int8],
};

/// `child` is known when the row is inserted, and never changes.
static STEPS: Table = Table {
    name: "steps",
    key: 3,
    columns: columns![run int8, step_no int8, item int8, state int2, child int8, body bytea],
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

/// `kind` is the period, and whether the row is of a job. `job` is empty in a row of a namespace.
static STATISTICS: Table = Table {
    name: "statistics",
    key: 6,
    columns: columns![
        namespace text, job text, kind int2, bucket_at int8, shard int2, commit_no int8, body bytea
    ],
};

/// Counts that are not in `statistics` yet.
static RECENT_COUNTS: Table =
    Table { name: "recent_counts", key: 2, columns: columns![shard int2, page int8, body bytea] };

/// The search index. A term is bytes, so that it is compared byte by byte.
static RUN_TERMS: Table =
    Table { name: "run_terms", key: 3, columns: columns![namespace text, term bytea, run int8] };

/// An update writes all columns: the same batch may delete a queue and reuse its number for another.
static QUEUES: Table = Table {
    name: "queues",
    key: 2,
    columns: columns![
        shard int2, number int8, namespace text, name bytea, created_at int8, paused_input int2,
        paused_output int2, queued int8, messages int8, unacked int8, settings text
    ],
};

/// The body of a message never changes.
static MESSAGES: Table = Table {
    name: "messages",
    key: 4,
    columns: columns![shard int2, queue int8, rank_no int2, number int8, wake_at int8, queued int2, head bytea, body bytea],
};

/// The jobs and steps that hear of the topics of a shard.
static LISTENERS: Table =
    Table { name: "listeners", key: 2, columns: columns![shard int2, number int8, body bytea] };

/// The locks that are held. The body has all of a lock.
static LOCKS: Table = Table {
    name: "locks",
    key: 2,
    columns: columns![shard int2, fence int8, namespace text, name text, body bytea],
};
static HOLDS: Table = Table { name: "holds", key: 2, columns: columns![shard int2, number int8, body bytea] };

/// `ended_at` is null while the incident is open.
static INCIDENTS: Table = Table {
    name: "incidents",
    key: 1,
    columns: columns![number int8, shard int2, namespace text, job text, ended_at int8, body bytea],
};

static APPROVALS: Table = Table {
    name: "approvals",
    key: 3,
    columns: columns![
        namespace text, run int8, step_no int8, job text, step text, since int8, until int8
    ],
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

const DELETE_JOB: WriteId = 0;
/// A fire: the definition of a revision never changes, so it is not written again.
pub(crate) const FIRE_JOB: WriteId = 1;
pub(crate) const EDIT_JOB: WriteId = 2;
pub(crate) const INSERT_JOB: WriteId = 3;
const DELETED_JOB: WriteId = 4;
const REVISION: WriteId = 7;
const RUN: WriteId = 10;
pub(crate) const DELETE_RUN: WriteId = RUN;
pub(crate) const INSERT_RUN: WriteId = RUN + 2;
const OF_HISTORY: WriteId = 13;
pub(crate) const DELETE_HISTORY: WriteId = OF_HISTORY;
pub(crate) const INSERT_HISTORY: WriteId = OF_HISTORY + 2;
const DEAD_LETTER: WriteId = 16;
const STEP: WriteId = 19;
const UNIQUE: WriteId = 22;
const SKIP: WriteId = 25;
const STATISTICS_ROW: WriteId = 28;
const RECENT: WriteId = 31;
const TERM: WriteId = 34;
const QUEUE: WriteId = 37;
const MESSAGE: WriteId = 40;
const LISTENER: WriteId = 43;
pub(crate) const INSERT_MESSAGE: WriteId = MESSAGE + 2;
pub(crate) const UPDATE_MESSAGE: WriteId = MESSAGE + 1;
pub(crate) const DELETE_MESSAGE: WriteId = MESSAGE;
const APPROVAL: WriteId = 46;
const LOCK: WriteId = 49;
const HOLD: WriteId = 52;
const INCIDENT: WriteId = 55;

/// Every write, in the order in which a commit sends them: of each table first deletes, then updates, then inserts, so
/// that a name is free again for another job in the same batch.
pub(crate) static WRITES: [Write; 58] = [
    delete(&JOBS),
    Write {
        table: &JOBS,
        action: Action::Update { set: &[2, 3, 4, 5, 6, 7, 8, 9, 10], and: &[(1, "="), (4, "<=")] },
    },
    Write {
        table: &JOBS,
        action: Action::Update { set: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], and: &[(4, "<=")] },
    },
    insert(&JOBS),
    delete(&DELETED_JOBS),
    update(&DELETED_JOBS, &[1, 2]),
    insert(&DELETED_JOBS),
    delete(&REVISIONS),
    update(&REVISIONS, &[2, 3, 4]),
    insert(&REVISIONS),
    delete(&RUNS),
    update(&RUNS, &[2, 4, 8]),
    insert(&RUNS),
    delete(&HISTORY),
    update(&HISTORY, &[2, 3, 7]),
    insert(&HISTORY),
    delete(&DEAD_LETTERS),
    update(&DEAD_LETTERS, &[1, 2, 3]),
    insert(&DEAD_LETTERS),
    delete(&STEPS),
    update(&STEPS, &[3, 5]),
    insert(&STEPS),
    delete(&UNIQUES),
    update(&UNIQUES, &[2, 3]),
    insert(&UNIQUES),
    delete(&SKIPS),
    update(&SKIPS, &[3, 4, 5]),
    insert(&SKIPS),
    delete(&STATISTICS),
    update(&STATISTICS, &[6]),
    insert(&STATISTICS),
    delete(&RECENT_COUNTS),
    update(&RECENT_COUNTS, &[2]),
    insert(&RECENT_COUNTS),
    delete(&RUN_TERMS),
    // An entry has no other columns than its key.
    update(&RUN_TERMS, &[2]),
    insert(&RUN_TERMS),
    delete(&QUEUES),
    update(&QUEUES, &[2, 3, 4, 5, 6, 7, 8, 9, 10]),
    insert(&QUEUES),
    delete(&MESSAGES),
    update(&MESSAGES, &[4, 5, 6]),
    insert(&MESSAGES),
    delete(&LISTENERS),
    update(&LISTENERS, &[2]),
    insert(&LISTENERS),
    delete(&APPROVALS),
    update(&APPROVALS, &[3, 4, 5, 6]),
    insert(&APPROVALS),
    delete(&LOCKS),
    update(&LOCKS, &[4]),
    insert(&LOCKS),
    delete(&HOLDS),
    update(&HOLDS, &[2]),
    insert(&HOLDS),
    delete(&INCIDENTS),
    update(&INCIDENTS, &[4, 5]),
    insert(&INCIDENTS),
];

/// The columns of a row, as far as the write needs them. The rows of a commit are appended to few of them: a `Vec` per
/// row would cost a tenth of the speed.
pub(crate) type Values<'b> = Vec<Value<'b>>;

fn put<'b, const N: usize>(values: &mut Values<'b>, write: WriteId, columns: [Value<'b>; N]) -> WriteId {
    values.extend(columns);
    write
}

/// Appends what a change writes.
pub(crate) fn write_of<'b>(
    batch: &'b Batch,
    key: &'b RowKey,
    change: &'b Change,
    values: &mut Values<'b>,
) -> Result<WriteId> {
    match change {
        Change::Delete => Ok(deleted(batch.shard, key, values)),
        Change::Insert(Row::Job(job)) => inserted_job(batch, job, values),
        Change::Update(Row::Job(job)) if has_revision(batch, job) => edited_job(batch, job, values),
        Change::Update(Row::Job(job)) => fired_job(job, values),
        Change::Update(row) => of_row(batch.shard, row, values).map(|delete| delete + 1),
        Change::Insert(row) => of_row(batch.shard, row, values).map(|delete| delete + 2),
    }
}

fn deleted<'b>(shard: ShardId, key: &'b RowKey, values: &mut Values<'b>) -> WriteId {
    match key {
        RowKey::Job(id) => put(values, DELETE_JOB, [id.0.into()]),
        RowKey::DeletedJob(id) => put(values, DELETED_JOB, [id.0.into()]),
        RowKey::Revision(id, revision) => put(values, REVISION, [id.0.into(), (*revision).into()]),
        RowKey::Run(id) => put(values, DELETE_RUN, [live_key::of(*id).into()]),
        // Only pruning deletes the history of children.
        RowKey::History(id) => put(values, DELETE_HISTORY, [ended_key::whole(*id).into()]),
        RowKey::DeadLetter(id) => put(values, DEAD_LETTER, [id.0.into()]),
        RowKey::Step(key) => put(values, STEP, step_key(key)),
        RowKey::Listener(number) => put(values, LISTENER, [shard.0.into(), (*number).into()]),
        RowKey::Lock(fence) => put(values, LOCK, [shard.0.into(), fence.0.into()]),
        RowKey::Hold(number) => put(values, HOLD, [shard.0.into(), (*number).into()]),
        RowKey::Approval(key) => put(values, APPROVAL, approval_key(key)),
        RowKey::Incident(id) => put(values, INCIDENT, [id.0.into()]),
        RowKey::Unique(key) => put(values, UNIQUE, [shard.0.into(), key.as_bytes().into()]),
        RowKey::Skip(id, revision, from) => {
            put(values, SKIP, [id.0.into(), (*revision).into(), (*from).into()])
        }
        RowKey::Statistics(key) => put(values, STATISTICS_ROW, statistics_key(key)),
        RowKey::RecentCounts(page) => put(values, RECENT, [shard.0.into(), (*page).into()]),
        RowKey::Term(term) => put(values, TERM, of_term(term)),
        RowKey::Queue(number) => put(values, QUEUE, [shard.0.into(), number.0.into()]),
        RowKey::Message(queue, place) => put(
            values,
            DELETE_MESSAGE,
            [shard.0.into(), queue.0.into(), place.rank.into(), place.number.into()],
        ),
    }
}

/// Appends the values of all columns, and returns the write that deletes such a row.
fn of_row<'b>(shard: ShardId, row: &'b Row, values: &mut Values<'b>) -> Result<WriteId> {
    Ok(match row {
        Row::Job(job) => fired_job(job, values)?,
        Row::DeletedJob(DeletedJob { id, namespace, name }) => {
            put(values, DELETED_JOB, [id.0.into(), namespace.as_str().into(), name.as_str().into()])
        }
        Row::Revision(revision) => {
            values.extend([revision.job.0.into(), revision.revision.into(), revision.at.into()]);
            let texts = [codec::json(&revision.definition)?.into(), codec::json(&revision.state)?.into()];
            put(values, REVISION, texts)
        }
        Row::Run(run) => put(values, RUN, live_run(run)?),
        Row::History(run) => put(values, OF_HISTORY, ended_run(run)?),
        Row::DeadLetter(letter) => {
            let (run, job) = (letter.run.0, letter.job.as_ref().map(Name::as_str));
            put(
                values,
                DEAD_LETTER,
                [run.into(), letter.namespace.as_str().into(), job.into(), letter.at.into()],
            )
        }
        Row::Step(step) => put(values, STEP, of_step(step)?),
        Row::Listener(of) => put(values, LISTENER, numbered(shard, of.number, of)?),
        Row::Lock(lock) => {
            let (namespace, name) = (lock.key.namespace.as_str(), lock.key.name.as_str());
            values.extend([shard.0.into(), lock.fence.0.into(), namespace.into(), name.into()]);
            put(values, LOCK, [codec::write_json(lock)?.into()])
        }
        Row::Hold(hold) => put(values, HOLD, numbered(shard, hold.number, hold)?),
        Row::Approval(approval) => put(values, APPROVAL, of_approval(approval)),
        Row::Incident(incident) => put(values, INCIDENT, of_incident(shard, incident)?),
        Row::Unique(unique) => {
            let (key, holder) = (unique.key.as_bytes(), unique.holder.as_column());
            put(values, UNIQUE, [shard.0.into(), key.into(), holder.into(), unique.expires_at.into()])
        }
        Row::Skip(skip) => {
            values.extend([skip.job.0.into(), skip.revision.into(), skip.from.into(), skip.to.into()]);
            put(values, SKIP, [codec::json(&skip.reason)?.into(), skip.at.into()])
        }
        Row::Statistics(row) => {
            values.extend(statistics_key(&row.key));
            put(values, STATISTICS_ROW, [row.counts.encode().into()])
        }
        Row::RecentCounts(recent) => {
            put(values, RECENT, [shard.0.into(), recent.page.into(), recent.encode().into()])
        }
        Row::Term(term) => put(values, TERM, of_term(term)),
        Row::Queue(queue) => put(values, QUEUE, of_queue(shard, queue)?),
        Row::Message(message) => put(values, MESSAGE, of_message(message)?),
    })
}

fn has_revision(batch: &Batch, job: &Job) -> bool {
    let revision = batch.changes.get(&RowKey::Revision(job.id, job.revision));
    matches!(revision, Some(Change::Insert(_) | Change::Update(_)))
}

fn fired_job<'b>(job: &'b Job, values: &mut Values<'b>) -> Result<WriteId> {
    let cursor = &job.cursor;
    values.extend([
        job.id.0.into(),
        job.revision.into(),
        job.pause.as_ref().map(codec::json).transpose()?.into(),
        job.updated_at.into(),
        cursor.fired_through.into(),
        cursor.next_due.into(),
        job.timer_at().into(),
        codec::json(&cursor.fires)?.into(),
        cursor.zone_data.as_deref().into(),
        job.failures.into(),
        codec::Watched::of(job).as_ref().map(codec::json).transpose()?.into(),
    ]);
    Ok(FIRE_JOB)
}

/// All columns that may change.
pub(crate) fn edited_job<'b>(batch: &Batch, job: &'b Job, values: &mut Values<'b>) -> Result<WriteId> {
    fired_job(job, values)?;
    values.extend([
        job.definition.keep.runs.into(),
        job.definition.keep.days.into(),
        codec::definition_beside(batch, job)?.into(),
        codec::calendar_names(&job.definition)?.into(),
    ]);
    Ok(EDIT_JOB)
}

fn inserted_job<'b>(batch: &'b Batch, job: &'b Job, values: &mut Values<'b>) -> Result<WriteId> {
    edited_job(batch, job, values)?;
    let (namespace, name) = (job.namespace.as_str(), job.name.as_str());
    values.extend([batch.shard.0.into(), namespace.into(), name.into(), job.created_at.into()]);
    Ok(INSERT_JOB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writes_have_the_order_that_their_numbers_say() {
        let name = |write: WriteId| WRITES[write].table.name;
        let rest = [
            REVISION,
            RUN,
            OF_HISTORY,
            DEAD_LETTER,
            STEP,
            UNIQUE,
            SKIP,
            STATISTICS_ROW,
            RECENT,
            TERM,
            QUEUE,
            MESSAGE,
            LISTENER,
            APPROVAL,
            LOCK,
            HOLD,
            INCIDENT,
        ];
        for first in rest {
            assert!((first..first + 3).all(|write| name(write) == name(first)), "{}", name(first));
            assert!(matches!(WRITES[first].action, Action::Delete));
            assert!(matches!(WRITES[first + 1].action, Action::Update { .. }));
            assert!(matches!(WRITES[first + 2].action, Action::Insert));
        }
    }
}
