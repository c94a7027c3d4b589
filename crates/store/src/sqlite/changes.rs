//! Writes batches: the fence first, then every change by primary key, in key order.
//!
//! Statements are taken from the cache once per transaction, not once per row.

mod messages;

use std::sync::LazyLock;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::{JobId, ShardId};
use punctual_failpoint::{Point, hit};
use rusqlite::{CachedStatement, Connection, ErrorCode, Params, ffi, params_from_iter};

pub(super) use self::messages::RowsThrough;
use super::failure::Failure;
use super::message_log::{MessageLog, Staged};
use super::queries;
use crate::sql::batches::fence_of;
use crate::sql::tables::{Action, FIRE_JOB, Values, WRITES, Write, WriteId, edited_job, write_of};
use crate::sql::value::Value;
use crate::{Error, refusal};

type Result<T, E = Failure> = std::result::Result<T, E>;

/// The statement of each write, and the columns that it needs.
pub(super) static STATEMENTS: LazyLock<Vec<(String, Vec<usize>)>> =
    LazyLock::new(|| WRITES.iter().map(|write| (statement(write), write.columns())).collect());

fn statement(write: &Write) -> String {
    let (table, columns) = (write.table.name, write.columns());
    let parameter = |column: &usize| format!("?{}", columns.partition_point(|other| other < column) + 1);
    let compare = |(column, operator): (usize, &str)| {
        format!("{} {operator} {}", write.name(column), parameter(&column))
    };
    let keys = (0..write.table.key).map(|column| (column, "="));
    let all = |conditions: Vec<String>| conditions.join(" AND ");
    match &write.action {
        Action::Insert => {
            let names: Vec<&str> = columns.iter().map(|column| write.name(*column)).collect();
            let values: Vec<String> = columns.iter().map(parameter).collect();
            format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", "))
        }
        Action::Update { set, and } => {
            let set: Vec<String> = set.iter().map(|column| compare((*column, "="))).collect();
            let conditions = keys.chain(and.iter().copied()).map(compare).collect();
            format!("UPDATE {table} SET {} WHERE {}", set.join(", "), all(conditions))
        }
        Action::Delete => format!("DELETE FROM {table} WHERE {}", all(keys.map(compare).collect())),
    }
}

pub(super) struct Statements<'c> {
    connection: &'c Connection,
    /// Each is taken from the cache when it is first needed.
    writes: [Option<CachedStatement<'c>>; WRITES.len()],
    log: &'c MessageLog,
    staged: Staged,
    rows_through: &'c mut RowsThrough,
}

impl<'c> Statements<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        log: &'c MessageLog,
        rows_through: &'c mut RowsThrough,
    ) -> Self {
        let writes = [const { None }; WRITES.len()];
        Statements { connection, writes, log, staged: Staged::default(), rows_through }
    }

    pub(super) fn write(&mut self, batch: &Batch) -> Result<()> {
        self.pass_fence(batch)?;
        hit(Point::SqliteCommitFenced);
        let mut values = Values::new();
        for (key, change) in batch.changes.iter() {
            values.clear();
            let hit = self.change(batch, key, change, &mut values);
            if !hit.map_err(|failure| taken(batch.shard, key, change, failure))? {
                return Err(self.missed(batch.shard, key, change));
            }
        }
        Ok(())
    }

    fn pass_fence(&mut self, batch: &Batch) -> Result<()> {
        let is_newest = self.execute(queries::shards::FENCE, params_from_iter(fence_of(batch)))?;
        let Batch { shard, epoch, .. } = *batch;
        if is_newest { Ok(()) } else { Err(Error::Fenced { shard, epoch }.into()) }
    }

    /// Returns false if there is no such row.
    fn change<'b>(
        &mut self,
        batch: &'b Batch,
        key: &'b RowKey,
        change: &'b Change,
        values: &mut Values<'b>,
    ) -> Result<bool> {
        match (key, change) {
            (_, Change::Insert(Row::Message(message))) => return self.insert_message(batch.shard, message),
            (_, Change::Update(Row::Message(message))) => return self.update_message(message),
            (RowKey::Message(queue, place), Change::Delete) => {
                return self.delete_message(batch.shard, *queue, *place);
            }
            _ => {}
        }
        let write = write_of(batch, key, change, values)?;
        let hit = self.write_row(write, values)?;
        match change {
            // Usually a fire, which leaves the definition unchanged. If the revision changed, the whole row is written.
            Change::Update(Row::Job(job)) if !hit && write == FIRE_JOB => {
                values.clear();
                self.write_row(edited_job(batch, job, values)?, values)
            }
            _ => Ok(hit),
        }
    }

    fn write_row(&mut self, write: WriteId, values: &[Value<'_>]) -> Result<bool> {
        let (sql, columns) = &STATEMENTS[write];
        let statement = match &mut self.writes[write] {
            Some(statement) => statement,
            empty => empty.insert(self.connection.prepare_cached(sql)?),
        };
        Ok(statement.execute(params_from_iter(columns.iter().map(|column| &values[*column])))? == 1)
    }

    fn execute(&self, sql: &str, params: impl Params) -> Result<bool> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)? == 1)
    }

    /// Why an update or a delete hit no row.
    fn missed(&self, shard: ShardId, key: &RowKey, change: &Change) -> Failure {
        match (key, change) {
            (RowKey::Job(id), Change::Update(_)) if self.has_job(*id) => {
                refusal::cursor_back(shard, *id).into()
            }
            _ => refusal::missing(shard, key).into(),
        }
    }

    fn has_job(&self, id: JobId) -> bool {
        let exists = self.connection.prepare_cached(queries::jobs::EXISTS);
        exists.and_then(|mut statement| statement.exists([id.0])).unwrap_or(false)
    }
}

/// The refusal for an insert that conflicts: the extended code says with which index.
fn taken(shard: ShardId, key: &RowKey, change: &Change, failure: Failure) -> Failure {
    let (Failure::Sqlite(error), Change::Insert(_)) = (&failure, change) else { return failure };
    match error.sqlite_error() {
        Some(code) if code.code != ErrorCode::ConstraintViolation => failure,
        Some(code) if code.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE => {
            refusal::name_taken(shard, key).into()
        }
        Some(_) => refusal::exists(shard, key).into(),
        None => failure,
    }
}
