//! Changes as column arrays: one statement per table and kind of change, for any number of rows.
//!
//! Rows are written in key order: the batch of one shard has that order, and shards are sorted before. Deletes come
//! before inserts, so that a name is free again for another job in the same batch.

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, DeadLetter, Revision, Row, RowKey, Skip, UniqueKey};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::name::Name;
use punctual_core::queue::{Message, QueueRecord};
use punctual_core::run::Run;

use super::link::{Ask, ask};
use super::messages::{self, MessageKey};
use super::queries::{
    dead_letters, deleted_jobs, history, jobs, queues, revisions, runs, shards, skips, uniques,
};
use crate::tally::Tally;
use crate::{Result, codec, place};

/// The writes of several batches, at most one of each shard.
#[derive(Debug, Default)]
pub(super) struct Writes<'b> {
    jobs: Kind<(&'b Batch, &'b Job), i64>,
    /// Jobs whose revision is in the batch. The other updated jobs only move their cursor.
    edited_jobs: Vec<(&'b Batch, &'b Job)>,
    revisions: Kind<&'b Revision, (i64, i64)>,
    runs: Kind<&'b Run, i64>,
    history: Kind<&'b Run, i64>,
    letters: Kind<&'b DeadLetter, i64>,
    uniques: Kind<(ShardId, &'b UniqueKey), (i16, &'b str)>,
    skips: Kind<&'b Skip, (i64, i64, i64)>,
    queues: Kind<(ShardId, &'b QueueRecord), (i16, i64)>,
    messages: Kind<&'b Message, MessageKey>,
}

#[derive(Debug)]
struct Kind<R, K> {
    inserts: Vec<R>,
    updates: Vec<R>,
    deletes: Vec<K>,
}

impl<R, K> Default for Kind<R, K> {
    fn default() -> Self {
        Kind { inserts: Vec::new(), updates: Vec::new(), deletes: Vec::new() }
    }
}

impl<R, K> Kind<R, K> {
    fn put(&mut self, row: R, is_new: bool) {
        if is_new { self.inserts.push(row) } else { self.updates.push(row) }
    }
}

impl<'b> Writes<'b> {
    pub(super) fn add(&mut self, batch: &'b Batch, key: &'b RowKey, change: &'b Change) {
        match change {
            Change::Insert(row) => self.put(batch, row, true),
            Change::Update(row) => self.put(batch, row, false),
            Change::Delete => self.delete(batch.shard, key),
        }
    }

    fn put(&mut self, batch: &'b Batch, row: &'b Row, is_new: bool) {
        match row {
            Row::Job(job) if !is_new && has_revision(batch, job) => self.edited_jobs.push((batch, job)),
            Row::Job(job) => self.jobs.put((batch, job), is_new),
            Row::Revision(revision) => self.revisions.put(revision, is_new),
            Row::Run(run) => self.runs.put(run, is_new),
            Row::History(run) => self.history.put(run, is_new),
            Row::DeadLetter(letter) => self.letters.put(letter, is_new),
            Row::Unique(unique) => self.uniques.put((batch.shard, unique), is_new),
            Row::Skip(skip) => self.skips.put(skip, is_new),
            Row::Queue(queue) => self.queues.put((batch.shard, queue), is_new),
            Row::Message(message) => self.messages.put(message, is_new),
        }
    }

    fn delete(&mut self, shard: ShardId, key: &'b RowKey) {
        match key {
            RowKey::Job(id) => self.jobs.deletes.push(id.0),
            RowKey::Revision(id, revision) => self.revisions.deletes.push((id.0, i64::from(*revision))),
            RowKey::Run(id) => self.runs.deletes.push(place::of(*id)),
            RowKey::History(id) => self.history.deletes.push(id.0),
            RowKey::DeadLetter(id) => self.letters.deletes.push(id.0),
            RowKey::Unique(key) => self.uniques.deletes.push((number(shard), key)),
            RowKey::Skip(id, revision, from) => {
                self.skips.deletes.push((id.0, i64::from(*revision), from.as_millis()));
            }
            RowKey::Queue(queue) => self.queues.deletes.push((number(shard), i64::from(queue.0))),
            RowKey::Message(queue, place) => self.messages.deletes.push((shard, *queue, *place)),
        }
    }

    /// Adds a job whose revision changes although the batch has no revision row.
    pub(super) fn edit(&mut self, batch: &'b Batch, job: &'b Job) {
        self.edited_jobs.push((batch, job));
    }

    pub(super) fn asks(self) -> Result<Vec<Ask>> {
        let mut asks = Vec::new();
        if !self.jobs.deletes.is_empty() {
            asks.push(ask!(deleted_jobs::INSERT, self.jobs.deletes.clone()));
        }
        self.jobs.asks(&mut asks, write_jobs, move_jobs, |ids| ask!(jobs::DELETE, ids.to_vec()))?;
        if !self.edited_jobs.is_empty() {
            asks.extend(edit_jobs(&self.edited_jobs)?);
        }
        self.revisions.asks(
            &mut asks,
            |rows| write_revisions(revisions::INSERT, rows),
            |rows| write_revisions(revisions::UPDATE, rows),
            |keys| by_two(revisions::DELETE, keys),
        )?;
        self.runs.asks(&mut asks, insert_runs, update_runs, |keys| ask!(runs::DELETE, keys.to_vec()))?;
        self.history
            .asks(&mut asks, insert_history, update_history, |keys| ask!(history::DELETE, keys.to_vec()))?;
        self.letters.asks(
            &mut asks,
            |rows| Ok(vec![write_letters(dead_letters::INSERT, rows)]),
            |rows| Ok(vec![write_letters(dead_letters::UPDATE, rows)]),
            |keys| ask!(dead_letters::DELETE, keys.to_vec()),
        )?;
        self.uniques.asks(
            &mut asks,
            |rows| Ok(vec![write_uniques(uniques::INSERT, rows)]),
            |rows| Ok(vec![write_uniques(uniques::UPDATE, rows)]),
            delete_uniques,
        )?;
        self.skips.asks(
            &mut asks,
            |rows| write_skips(skips::INSERT, rows),
            |rows| write_skips(skips::UPDATE, rows),
            delete_skips,
        )?;
        self.queues.asks(
            &mut asks,
            |rows| Ok(vec![messages::write_queues(queues::INSERT, rows)]),
            |rows| Ok(vec![messages::write_queues(queues::UPDATE, rows)]),
            messages::delete_queues,
        )?;
        self.messages.asks(&mut asks, messages::insert, messages::update, messages::delete)?;
        Ok(asks)
    }
}

impl<R, K> Kind<R, K> {
    fn asks(
        &self,
        asks: &mut Vec<Ask>,
        insert: impl FnOnce(&[R]) -> Result<Vec<Ask>>,
        update: impl FnOnce(&[R]) -> Result<Vec<Ask>>,
        delete: impl FnOnce(&[K]) -> Ask,
    ) -> Result<()> {
        if !self.deletes.is_empty() {
            asks.push(delete(&self.deletes));
        }
        if !self.updates.is_empty() {
            asks.extend(update(&self.updates)?);
        }
        if !self.inserts.is_empty() {
            asks.extend(insert(&self.inserts)?);
        }
        Ok(())
    }
}

/// The fences of batches, at most one of each shard.
pub(super) fn fence(batches: &[&Batch]) -> Ask {
    let tallies: Vec<Tally> = batches.iter().map(|batch| Tally::of(&batch.changes)).collect();
    ask!(
        shards::FENCE,
        column(batches, |batch| number(batch.shard)),
        column(batches, |batch| i64::from(batch.epoch.0)),
        column(batches, |batch| batch.commit.cast_signed()),
        column(batches, |batch| batch.last_id),
        column(&tallies, |tally| tally.jobs),
        column(&tallies, |tally| tally.live_runs),
        column(&tallies, |tally| tally.history_runs),
        column(&tallies, |tally| tally.dead_letters),
    )
}

/// The shard's number as the database stores it; there are at most 1,024.
pub(super) fn number(shard: ShardId) -> i16 {
    i16::try_from(shard.0).unwrap_or(i16::MAX)
}

fn has_revision(batch: &Batch, job: &Job) -> bool {
    let revision = batch.changes.get(&RowKey::Revision(job.id, job.revision));
    matches!(revision, Some(Change::Insert(_) | Change::Update(_)))
}

pub(super) fn column<R, T>(rows: &[R], value: impl FnMut(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn texts<R>(rows: &[R], value: impl FnMut(&R) -> Result<String>) -> Result<Vec<String>> {
    rows.iter().map(value).collect()
}

fn millis(instant: Option<Timestamp>) -> Option<i64> {
    instant.map(Timestamp::as_millis)
}

fn status(run: &Run) -> i16 {
    i16::try_from(codec::status_number(run.status())).unwrap_or(i16::MAX)
}

fn key(run: &Run) -> Option<Vec<u8>> {
    run.key.as_ref().map(|key| key.as_bytes().to_vec())
}

/// Initial buffer size; most runs fit.
const BODY_BYTES: usize = 256;
/// Bytes of bodies in one statement; a single larger body is allowed. The server accepts a message of 1 GiB at most.
pub(super) const STATEMENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Definitions in one statement: each is below 2 MiB, and usually far below.
const STATEMENT_DEFINITIONS_MAX: usize = 256;

/// Splits runs into statements of limited size.
fn in_pieces<'r>(rows: &[&'r Run], write: impl Fn(&[&'r Run], Vec<Vec<u8>>) -> Ask) -> Result<Vec<Ask>> {
    let (mut asks, mut first, mut bytes, mut bodies) = (Vec::new(), 0, 0, Vec::new());
    for (index, run) in rows.iter().enumerate() {
        let mut body = Vec::with_capacity(BODY_BYTES);
        codec::write_run(run, &mut body)?;
        if bytes + body.len() > STATEMENT_BYTES_MAX && !bodies.is_empty() {
            asks.push(write(&rows[first..index], std::mem::take(&mut bodies)));
            (first, bytes) = (index, 0);
        }
        bytes += body.len();
        bodies.push(body);
    }
    asks.push(write(&rows[first..], bodies));
    Ok(asks)
}

fn write_jobs(rows: &[(&Batch, &Job)]) -> Result<Vec<Ask>> {
    rows.chunks(STATEMENT_DEFINITIONS_MAX).map(insert_jobs).collect()
}

fn insert_jobs(rows: &[(&Batch, &Job)]) -> Result<Ask> {
    Ok(ask!(
        jobs::INSERT,
        column(rows, |(_, job)| job.id.0),
        column(rows, |(batch, _)| number(batch.shard)),
        column(rows, |(_, job)| job.namespace.as_str().to_owned()),
        column(rows, |(_, job)| job.name.as_str().to_owned()),
        column(rows, |(_, job)| i64::from(job.revision)),
        column(rows, |(_, job)| job.paused),
        column(rows, |(_, job)| job.created_at.as_millis()),
        column(rows, |(_, job)| job.updated_at.as_millis()),
        column(rows, |(_, job)| job.cursor.fired_through.as_millis()),
        column(rows, |(_, job)| millis(job.cursor.next_due)),
        column(rows, |(_, job)| millis(job.cursor.wake_at)),
        texts(rows, |(_, job)| codec::json(&job.cursor.fires))?,
        column(rows, |(_, job)| i64::from(job.definition.keep.runs)),
        column(rows, |(_, job)| i64::from(job.definition.keep.days)),
        definitions(rows)?,
        calendars(rows)?,
        column(rows, |(_, job)| zone_data(job)),
    ))
}

fn move_jobs(rows: &[(&Batch, &Job)]) -> Result<Vec<Ask>> {
    Ok(vec![Ask { sql: jobs::MOVE, params: moved(rows)? }])
}

fn edit_jobs(rows: &[(&Batch, &Job)]) -> Result<Vec<Ask>> {
    rows.chunks(STATEMENT_DEFINITIONS_MAX).map(update_jobs).collect()
}

fn update_jobs(rows: &[(&Batch, &Job)]) -> Result<Ask> {
    let mut params = moved(rows)?;
    params.push(Box::new(column(rows, |(_, job)| i64::from(job.definition.keep.runs))));
    params.push(Box::new(column(rows, |(_, job)| i64::from(job.definition.keep.days))));
    params.push(Box::new(definitions(rows)?));
    params.push(Box::new(calendars(rows)?));
    Ok(Ask { sql: jobs::EDIT, params })
}

/// The columns that a fire changes.
fn moved(rows: &[(&Batch, &Job)]) -> Result<Vec<super::link::Param>> {
    Ok(vec![
        Box::new(column(rows, |(_, job)| job.id.0)),
        Box::new(column(rows, |(_, job)| i64::from(job.revision))),
        Box::new(column(rows, |(_, job)| job.paused)),
        Box::new(column(rows, |(_, job)| job.updated_at.as_millis())),
        Box::new(column(rows, |(_, job)| job.cursor.fired_through.as_millis())),
        Box::new(column(rows, |(_, job)| millis(job.cursor.next_due))),
        Box::new(column(rows, |(_, job)| millis(job.cursor.wake_at))),
        Box::new(texts(rows, |(_, job)| codec::json(&job.cursor.fires))?),
        Box::new(column(rows, |(_, job)| zone_data(job))),
    ])
}

fn zone_data(job: &Job) -> Option<String> {
    job.cursor.zone_data.as_deref().map(str::to_owned)
}

fn definitions(rows: &[(&Batch, &Job)]) -> Result<Vec<Option<String>>> {
    rows.iter().map(|(batch, job)| codec::definition_beside(batch, job)).collect()
}

fn calendars(rows: &[(&Batch, &Job)]) -> Result<Vec<Option<String>>> {
    rows.iter().map(|(_, job)| codec::calendar_names(&job.definition)).collect()
}

fn write_revisions(sql: &'static str, rows: &[&Revision]) -> Result<Vec<Ask>> {
    rows.chunks(STATEMENT_DEFINITIONS_MAX).map(|rows| some_revisions(sql, rows)).collect()
}

fn some_revisions(sql: &'static str, rows: &[&Revision]) -> Result<Ask> {
    Ok(ask!(
        sql,
        column(rows, |revision| revision.job.0),
        column(rows, |revision| i64::from(revision.revision)),
        column(rows, |revision| revision.at.as_millis()),
        texts(rows, |revision| codec::json(&revision.definition))?,
        texts(rows, |revision| codec::json(&revision.state))?,
    ))
}

fn insert_runs(rows: &[&Run]) -> Result<Vec<Ask>> {
    in_pieces(rows, |rows, bodies| {
        ask!(
            runs::INSERT,
            column(rows, |run| place::of(run.id)),
            column(rows, |run| number(run.shard())),
            column(rows, |run| millis(run.wake_at())),
            column(rows, |run| run.job().map(|job| job.0)),
            column(rows, |run| status(run)),
            column(rows, |run| run.namespace.as_str().to_owned()),
            column(rows, |run| key(run)),
            bodies,
        )
    })
}

fn update_runs(rows: &[&Run]) -> Result<Vec<Ask>> {
    in_pieces(rows, |rows, bodies| {
        ask!(
            runs::UPDATE,
            column(rows, |run| place::of(run.id)),
            column(rows, |run| millis(run.wake_at())),
            column(rows, |run| status(run)),
            bodies,
        )
    })
}

/// In id order: new ids go to the end of the index, so a batch touches few of its pages.
fn insert_history(rows: &[&Run]) -> Result<Vec<Ask>> {
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(|run| run.id);
    in_pieces(&rows, |rows, bodies| {
        ask!(
            history::INSERT,
            column(rows, |run| run.id.0),
            column(rows, |run| run.job().map(|job| job.0)),
            column(rows, |run| status(run)),
            column(rows, |run| finished_at(run)),
            column(rows, |run| run.namespace.as_str().to_owned()),
            column(rows, |run| key(run)),
            bodies,
        )
    })
}

fn update_history(rows: &[&Run]) -> Result<Vec<Ask>> {
    in_pieces(rows, |rows, bodies| {
        ask!(
            history::UPDATE,
            column(rows, |run| run.id.0),
            column(rows, |run| status(run)),
            column(rows, |run| finished_at(run)),
            bodies,
        )
    })
}

fn finished_at(run: &Run) -> i64 {
    run.finished_at.unwrap_or(run.created_at).as_millis()
}

fn write_letters(sql: &'static str, rows: &[&DeadLetter]) -> Ask {
    ask!(
        sql,
        column(rows, |letter| letter.run.0),
        column(rows, |letter| letter.namespace.as_str().to_owned()),
        column(rows, |letter| letter.job.as_ref().map(|job: &Name| job.as_str().to_owned())),
        column(rows, |letter| letter.at.as_millis()),
    )
}

fn write_uniques(sql: &'static str, rows: &[(ShardId, &UniqueKey)]) -> Ask {
    ask!(
        sql,
        column(rows, |(shard, _)| number(*shard)),
        column(rows, |(_, unique)| unique.key.as_bytes().to_vec()),
        column(rows, |(_, unique)| unique.run.0),
        column(rows, |(_, unique)| unique.expires_at.as_millis()),
    )
}

fn delete_uniques(keys: &[(i16, &str)]) -> Ask {
    ask!(uniques::DELETE, column(keys, |(shard, _)| *shard), column(keys, |(_, key)| key.as_bytes().to_vec()),)
}

fn write_skips(sql: &'static str, rows: &[&Skip]) -> Result<Vec<Ask>> {
    Ok(vec![ask!(
        sql,
        column(rows, |skip| skip.job.0),
        column(rows, |skip| i64::from(skip.revision)),
        column(rows, |skip| skip.from.as_millis()),
        column(rows, |skip| skip.to.as_millis()),
        texts(rows, |skip| codec::json(&skip.reason))?,
        column(rows, |skip| skip.at.as_millis()),
    )])
}

fn delete_skips(keys: &[(i64, i64, i64)]) -> Ask {
    ask!(skips::DELETE, column(keys, |key| key.0), column(keys, |key| key.1), column(keys, |key| key.2))
}

fn by_two(sql: &'static str, keys: &[(i64, i64)]) -> Ask {
    ask!(sql, column(keys, |key| key.0), column(keys, |key| key.1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::task::Params;

    use super::*;
    use crate::conformance::given::{NOW, at};
    use punctual_core::ids::{IdMaker, RunId};
    use punctual_core::job::Definition;
    use punctual_core::name::Namespace;
    use punctual_core::run::{Origin, Trigger};
    use punctual_core::task::Task;

    #[test]
    fn large_runs_are_sent_in_pieces_that_hold_all_of_them() {
        let params = Params(Arc::from("x".repeat(STATEMENT_BYTES_MAX / 4)));
        let mut ids = IdMaker::new(ShardId(0), 0);
        let definition = Arc::new(Definition::of(Task::Noop));
        let runs: Vec<Run> = (0..10)
            .map(|_| {
                let origin = Origin::AdHoc(Arc::clone(&definition));
                let id = RunId(ids.next(NOW));
                let run = Run::new(id, Namespace::default(), origin, Trigger::Submit, at(0), NOW);
                Run { params: Some(params.clone()), ..run }
            })
            .collect();
        let rows: Vec<&Run> = runs.iter().collect();
        let sizes = std::cell::RefCell::new(Vec::new());
        let asks = in_pieces(&rows, |rows, bodies| {
            assert_eq!(rows.len(), bodies.len());
            sizes.borrow_mut().push(rows.len());
            ask!("")
        });
        assert_eq!(asks.unwrap().len(), 4);
        assert_eq!(*sizes.borrow(), [3, 3, 3, 1]);
    }
}
