//! Writes batches: the fence first, then every change by primary key, in key order.
//!
//! Statements are taken from the cache once per transaction, not once per row.

mod messages;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, DeadLetter, Revision, Row, RowKey, Skip, UniqueKey};
use punctual_core::ids::{JobId, ShardId};
use punctual_core::job::Job;
use punctual_core::name::Name;
use punctual_core::queue::QueueRecord;
use punctual_core::run::Run;
use punctual_failpoint::{Point, hit};
use rusqlite::{CachedStatement, Connection, ErrorCode, Params, ffi, params};

use super::failure::Failure;
use super::queries;
use super::writer::fenced;
use super::young::{Staged, Young};
use crate::tally::Tally;
use crate::{codec, place, refusal};

pub(super) use self::messages::RowsThrough;

type Result<T, E = Failure> = std::result::Result<T, E>;

pub(super) struct Statements<'c> {
    connection: &'c Connection,
    shards: u16,
    buffer: &'c mut Vec<u8>,
    fence: Lazy<'c>,
    insert_run: Lazy<'c>,
    update_run: Lazy<'c>,
    delete_run: Lazy<'c>,
    insert_history: Lazy<'c>,
    move_job: Lazy<'c>,
    update_queue: Lazy<'c>,
    insert_message: Lazy<'c>,
    update_message: Lazy<'c>,
    delete_message: Lazy<'c>,
    young: &'c Young,
    staged: Staged,
    rows_through: &'c mut RowsThrough,
}

/// A statement that is looked up when it is first needed.
#[derive(Default)]
struct Lazy<'c>(Option<CachedStatement<'c>>);

impl<'c> Lazy<'c> {
    fn execute(
        &mut self,
        connection: &'c Connection,
        sql: &str,
        params: impl Params,
    ) -> rusqlite::Result<usize> {
        let statement = match &mut self.0 {
            Some(statement) => statement,
            empty => empty.insert(connection.prepare_cached(sql)?),
        };
        statement.execute(params)
    }
}

impl<'c> Statements<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        shards: u16,
        buffer: &'c mut Vec<u8>,
        young: &'c Young,
        rows_through: &'c mut RowsThrough,
    ) -> Self {
        Statements {
            connection,
            shards,
            buffer,
            fence: Lazy::default(),
            insert_run: Lazy::default(),
            update_run: Lazy::default(),
            delete_run: Lazy::default(),
            insert_history: Lazy::default(),
            move_job: Lazy::default(),
            update_queue: Lazy::default(),
            insert_message: Lazy::default(),
            update_message: Lazy::default(),
            delete_message: Lazy::default(),
            young,
            staged: Staged::default(),
            rows_through,
        }
    }

    pub(super) fn write(&mut self, batch: &Batch) -> Result<()> {
        self.pass_fence(batch)?;
        hit(Point::SqliteCommitFenced);
        for (key, change) in batch.changes.iter() {
            refusal::check_shard(batch.shard, self.shards, key, change)?;
            let hit = match change {
                Change::Insert(row) => {
                    self.insert(batch, row).map_err(|failure| taken(batch.shard, key, failure))?
                }
                Change::Update(row) => self.update(batch, row)?,
                Change::Delete => self.delete(batch.shard, key)?,
            };
            if !hit {
                return Err(self.missed(batch.shard, key, change));
            }
        }
        Ok(())
    }

    fn pass_fence(&mut self, batch: &Batch) -> Result<()> {
        let Tally { jobs, live_runs, history_runs, dead_letters } = Tally::of(&batch.changes);
        let fence = (batch.shard.0, batch.epoch.0, batch.commit.cast_signed(), batch.last_id);
        let params = (fence.0, fence.1, fence.2, fence.3, jobs, live_runs, history_runs, dead_letters);
        let rows = self.fence.execute(self.connection, queries::shards::FENCE, params)?;
        if rows == 1 { Ok(()) } else { Err(fenced(batch)) }
    }

    fn insert(&mut self, batch: &Batch, row: &Row) -> Result<bool> {
        match row {
            Row::Run(run) => self.insert_run(batch.shard, run),
            Row::History(run) => self.insert_history(run),
            Row::Job(job) => self.insert_job(batch, job),
            Row::Revision(revision) => self.write_revision(queries::revisions::INSERT, revision),
            Row::DeadLetter(letter) => self.write_dead_letter(queries::dead_letters::INSERT, letter),
            Row::Unique(unique) => self.write_unique(queries::uniques::INSERT, batch.shard, unique),
            Row::Skip(skip) => self.write_skip(queries::skips::INSERT, skip),
            Row::Queue(queue) => self.insert_queue(batch.shard, queue),
            Row::Message(message) => self.insert_message(batch.shard, message),
        }
    }

    fn update(&mut self, batch: &Batch, row: &Row) -> Result<bool> {
        match row {
            Row::Run(run) => self.update_run(run),
            Row::History(run) => self.update_history(run),
            Row::Job(job) => self.update_job(batch, job),
            Row::Revision(revision) => self.write_revision(queries::revisions::UPDATE, revision),
            Row::DeadLetter(letter) => self.write_dead_letter(queries::dead_letters::UPDATE, letter),
            Row::Unique(unique) => self.write_unique(queries::uniques::UPDATE, batch.shard, unique),
            Row::Skip(skip) => self.write_skip(queries::skips::UPDATE, skip),
            Row::Queue(queue) => self.update_queue(batch.shard, queue),
            Row::Message(message) => self.update_message(batch.shard, message),
        }
    }

    fn delete(&mut self, shard: ShardId, key: &RowKey) -> Result<bool> {
        match key {
            RowKey::Run(id) => {
                let rows =
                    self.delete_run.execute(self.connection, queries::runs::DELETE, [place::of(*id)])?;
                Ok(rows == 1)
            }
            RowKey::History(id) => self.execute(queries::history::DELETE, [id.0]),
            RowKey::Job(id) => self.delete_job(*id),
            RowKey::Revision(id, revision) => self.execute(queries::revisions::DELETE, (id.0, revision)),
            RowKey::DeadLetter(id) => self.execute(queries::dead_letters::DELETE, [id.0]),
            RowKey::Unique(key) => self.execute(queries::uniques::DELETE, (shard.0, key.as_ref())),
            RowKey::Skip(id, revision, from) => {
                self.execute(queries::skips::DELETE, (id.0, revision, from.as_millis()))
            }
            RowKey::Queue(number) => self.execute(queries::queues::DELETE, (shard.0, number.0)),
            RowKey::Message(queue, place) => self.delete_message(shard, *queue, *place),
        }
    }

    fn insert_run(&mut self, shard: ShardId, run: &Run) -> Result<bool> {
        codec::write_run(run, self.buffer)?;
        let params = (
            place::of(run.id),
            shard.0,
            run.wake_at().map(Timestamp::as_millis),
            run.job().map(|job| job.0),
            codec::status_number(run.status()),
            run.namespace.as_str(),
            self.buffer.as_slice(),
            run.key.as_deref(),
        );
        let rows = self.insert_run.execute(self.connection, queries::runs::INSERT, params)?;
        Ok(rows == 1)
    }

    fn update_run(&mut self, run: &Run) -> Result<bool> {
        codec::write_run(run, self.buffer)?;
        let wake_at = run.wake_at().map(Timestamp::as_millis);
        let params = (place::of(run.id), wake_at, codec::status_number(run.status()), self.buffer.as_slice());
        let rows = self.update_run.execute(self.connection, queries::runs::UPDATE, params)?;
        Ok(rows == 1)
    }

    fn insert_history(&mut self, run: &Run) -> Result<bool> {
        codec::write_run(run, self.buffer)?;
        let params = (
            run.id.0,
            run.job().map(|job| job.0),
            codec::status_number(run.status()),
            run.finished_at.unwrap_or(run.created_at).as_millis(),
            run.namespace.as_str(),
            self.buffer.as_slice(),
            run.key.as_deref(),
        );
        let rows = self.insert_history.execute(self.connection, queries::history::INSERT, params)?;
        Ok(rows == 1)
    }

    fn update_history(&mut self, run: &Run) -> Result<bool> {
        codec::write_run(run, self.buffer)?;
        let finished_at = run.finished_at.unwrap_or(run.created_at).as_millis();
        let params = (run.id.0, codec::status_number(run.status()), finished_at, self.buffer.as_slice());
        let rows = self.connection.prepare_cached(queries::history::UPDATE)?.execute(params)?;
        Ok(rows == 1)
    }

    fn insert_job(&mut self, batch: &Batch, job: &Job) -> Result<bool> {
        let (cursor, keep) = (&job.cursor, &job.definition.keep);
        let params = params![
            job.id.0,
            batch.shard.0,
            job.namespace.as_str(),
            job.name.as_str(),
            job.revision,
            job.paused,
            job.created_at.as_millis(),
            job.updated_at.as_millis(),
            cursor.fired_through.as_millis(),
            cursor.next_due.map(Timestamp::as_millis),
            cursor.wake_at.map(Timestamp::as_millis),
            codec::json(&cursor.fires)?,
            keep.runs,
            keep.days,
            codec::definition_beside(batch, job)?,
            codec::calendar_names(&job.definition)?,
            cursor.zone_data.as_deref(),
        ];
        self.execute(queries::jobs::INSERT, params)
    }

    /// Usually a fire, which leaves the definition unchanged. If the revision changed, the whole row is written.
    fn update_job(&mut self, batch: &Batch, job: &Job) -> Result<bool> {
        let (cursor, keep) = (&job.cursor, &job.definition.keep);
        let fires = codec::json(&cursor.fires)?;
        let moved = (
            job.id.0,
            job.revision,
            job.paused,
            job.updated_at.as_millis(),
            cursor.fired_through.as_millis(),
            cursor.next_due.map(Timestamp::as_millis),
            cursor.wake_at.map(Timestamp::as_millis),
            fires.as_str(),
            cursor.zone_data.as_deref(),
        );
        if self.move_job.execute(self.connection, queries::jobs::MOVE, moved)? == 1 {
            return Ok(true);
        }
        let (id, revision, paused, updated_at, fired_through, next_due, wake_at, fires, zone_data) = moved;
        let definition = codec::definition_beside(batch, job)?;
        let edited = (
            id,
            revision,
            paused,
            updated_at,
            fired_through,
            next_due,
            wake_at,
            fires,
            zone_data,
            keep.runs,
            keep.days,
            definition,
            codec::calendar_names(&job.definition)?,
        );
        self.execute(queries::jobs::UPDATE, edited)
    }

    /// The job's revisions are pruned later, when no run needs them any more.
    fn delete_job(&mut self, id: JobId) -> Result<bool> {
        self.execute(queries::deleted_jobs::INSERT, [id.0])?;
        self.execute(queries::jobs::DELETE, [id.0])
    }

    fn write_revision(&mut self, sql: &str, revision: &Revision) -> Result<bool> {
        let (definition, state) = (codec::json(&revision.definition)?, codec::json(&revision.state)?);
        self.execute(sql, (revision.job.0, revision.revision, revision.at.as_millis(), definition, state))
    }

    fn write_dead_letter(&mut self, sql: &str, letter: &DeadLetter) -> Result<bool> {
        let job = letter.job.as_ref().map(Name::as_str);
        self.execute(sql, (letter.run.0, letter.namespace.as_str(), job, letter.at.as_millis()))
    }

    fn write_unique(&mut self, sql: &str, shard: ShardId, unique: &UniqueKey) -> Result<bool> {
        self.execute(sql, (shard.0, unique.key.as_ref(), unique.run.0, unique.expires_at.as_millis()))
    }

    fn write_skip(&mut self, sql: &str, skip: &Skip) -> Result<bool> {
        let (from, to) = (skip.from.as_millis(), skip.to.as_millis());
        let reason = codec::json(&skip.reason)?;
        self.execute(sql, (skip.job.0, skip.revision, from, to, reason, skip.at.as_millis()))
    }

    fn insert_queue(&mut self, shard: ShardId, queue: &QueueRecord) -> Result<bool> {
        self.execute(queries::queues::INSERT, queue_params(shard, queue))
    }

    fn update_queue(&mut self, shard: ShardId, queue: &QueueRecord) -> Result<bool> {
        let params = queue_params(shard, queue);
        Ok(self.update_queue.execute(self.connection, queries::queues::UPDATE, params)? == 1)
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

/// In the order of the columns that `queries::queues` writes.
fn queue_params(shard: ShardId, queue: &QueueRecord) -> impl Params {
    let QueueRecord { key, number, created_at, pause, queued, messages } = queue;
    (
        shard.0,
        number.0,
        key.namespace.as_str(),
        key.name.as_str(),
        created_at.as_millis(),
        pause.input,
        pause.output,
        queued.cast_signed(),
        messages.cast_signed(),
    )
}

/// The refusal for an insert that conflicts: the extended code says with which index.
fn taken(shard: ShardId, key: &RowKey, failure: Failure) -> Failure {
    let Failure::Sqlite(error) = &failure else { return failure };
    match error.sqlite_error() {
        Some(code) if code.code != ErrorCode::ConstraintViolation => failure,
        Some(code) if code.extended_code == ffi::SQLITE_CONSTRAINT_UNIQUE => {
            refusal::name_taken(shard, key).into()
        }
        Some(_) => refusal::exists(shard, key).into(),
        None => failure,
    }
}
