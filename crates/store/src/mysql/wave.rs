//! The changes of several shards, grouped by table and kind of change.
//!
//! A wave has at most one batch of each shard. Its rows are written table by table in key order: first deletes, then
//! updates, then inserts. Only jobs stay in the order of their batches, because a name becomes free when its job is
//! deleted.

use std::collections::BTreeSet;

use punctual_core::change::{Batch, Change, DeadLetter, Revision, Row, RowKey, Skip, UniqueKey};
use punctual_core::ids::{JobId, ShardId};
use punctual_core::job::Job;
use punctual_core::queue::{Message, Place, QueueNumber, QueueRecord};
use punctual_core::run::Run;

use super::messages;
use super::script::Script;
use super::statements as write;
use crate::{Result, place};

#[derive(Default)]
pub(super) struct Wave<'a> {
    jobs: Vec<JobChange<'a>>,
    revisions: Sorted<(i64, u32), &'a Revision>,
    runs: Sorted<i64, &'a Run>,
    history: Sorted<i64, &'a Run>,
    letters: Sorted<i64, &'a DeadLetter>,
    uniques: Sorted<(ShardId, &'a str), (ShardId, &'a UniqueKey)>,
    skips: Sorted<(i64, u32, i64), &'a Skip>,
    queues: Sorted<(ShardId, QueueNumber), (ShardId, &'a QueueRecord)>,
    messages: Sorted<(ShardId, QueueNumber, Place), &'a Message>,
}

/// The changes of one table.
struct Sorted<K, R> {
    go: Vec<K>,
    change: Vec<R>,
    come: Vec<R>,
}

impl<K, R> Default for Sorted<K, R> {
    fn default() -> Self {
        Sorted { go: Vec::new(), change: Vec::new(), come: Vec::new() }
    }
}

#[derive(Clone, Copy)]
enum JobChange<'a> {
    Come(&'a Batch, &'a Job),
    /// A fire: the definition of a revision never changes, so it is not written again.
    Move(&'a Job),
    Edit(&'a Batch, &'a Job),
    Go(JobId),
}

impl JobChange<'_> {
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> Wave<'a> {
    /// An updated job counts as fired, unless the batch has its revision.
    pub(super) fn add(&mut self, batch: &'a Batch, key: &'a RowKey, change: &'a Change) {
        match change {
            Change::Insert(row) => self.come(batch, row),
            Change::Update(Row::Job(job)) => {
                let edited = batch.changes.get(&RowKey::Revision(job.id, job.revision)).is_some();
                self.jobs.push(if edited { JobChange::Edit(batch, job) } else { JobChange::Move(job) });
            }
            Change::Update(row) => self.change(batch, row),
            Change::Delete => self.go(batch, key),
        }
    }

    /// Adds a job of which all columns are written.
    pub(super) fn edit(&mut self, batch: &'a Batch, job: &'a Job) {
        self.jobs.push(JobChange::Edit(batch, job));
    }

    fn come(&mut self, batch: &'a Batch, row: &'a Row) {
        match row {
            Row::Job(job) => self.jobs.push(JobChange::Come(batch, job)),
            Row::Revision(revision) => self.revisions.come.push(revision),
            Row::Run(run) => self.runs.come.push(run),
            Row::History(run) => self.history.come.push(run),
            Row::DeadLetter(letter) => self.letters.come.push(letter),
            Row::Unique(unique) => self.uniques.come.push((batch.shard, unique)),
            Row::Skip(skip) => self.skips.come.push(skip),
            Row::Queue(queue) => self.queues.come.push((batch.shard, queue)),
            Row::Message(message) => self.messages.come.push(message),
        }
    }

    fn change(&mut self, batch: &'a Batch, row: &'a Row) {
        match row {
            Row::Job(job) => self.jobs.push(JobChange::Move(job)),
            Row::Revision(revision) => self.revisions.change.push(revision),
            Row::Run(run) => self.runs.change.push(run),
            Row::History(run) => self.history.change.push(run),
            Row::DeadLetter(letter) => self.letters.change.push(letter),
            Row::Unique(unique) => self.uniques.change.push((batch.shard, unique)),
            Row::Skip(skip) => self.skips.change.push(skip),
            Row::Queue(queue) => self.queues.change.push((batch.shard, queue)),
            Row::Message(message) => self.messages.change.push(message),
        }
    }

    fn go(&mut self, batch: &'a Batch, key: &'a RowKey) {
        match key {
            RowKey::Job(id) => self.jobs.push(JobChange::Go(*id)),
            RowKey::Revision(id, revision) => self.revisions.go.push((id.0, *revision)),
            RowKey::Run(id) => self.runs.go.push(place::of(*id)),
            RowKey::History(id) => self.history.go.push(id.0),
            RowKey::DeadLetter(id) => self.letters.go.push(id.0),
            RowKey::Unique(key) => self.uniques.go.push((batch.shard, key)),
            RowKey::Skip(id, revision, from) => self.skips.go.push((id.0, *revision, from.as_millis())),
            RowKey::Queue(number) => self.queues.go.push((batch.shard, *number)),
            RowKey::Message(queue, place) => self.messages.go.push((batch.shard, *queue, *place)),
        }
    }

    /// Deleted live runs that do not become history in the same wave.
    fn gone_for_good(&self) -> Vec<i64> {
        let ended: BTreeSet<i64> = self.history.come.iter().map(|run| run.id.0).collect();
        let gone = self.runs.go.iter().map(|place| place::run(*place).0);
        gone.filter(|id| !ended.contains(id)).collect()
    }

    pub(super) fn write(&self, script: &mut Script) -> Result<()> {
        for alike in self.jobs.chunk_by(JobChange::is_like) {
            write_jobs(script, alike)?;
        }
        let Sorted { go, change, come } = &self.revisions;
        write::delete_revisions(script, go)?;
        change.iter().try_for_each(|revision| write::update_revision(script, revision))?;
        write::insert_revisions(script, come)?;

        let Sorted { go, change, come } = &self.runs;
        write::delete_runs(script, go)?;
        write::update_runs(script, change)?;
        write::insert_runs(script, come)?;
        write::insert_marks(script, come)?;
        write::delete_marks(script, &self.gone_for_good())?;

        let Sorted { go, change, come } = &self.history;
        write::delete_history(script, go)?;
        write::delete_marks(script, go)?;
        change.iter().try_for_each(|run| write::update_history(script, run))?;
        write::insert_history(script, come)?;
        write::insert_marks(script, come)?;

        let Sorted { go, change, come } = &self.letters;
        write::delete_letters(script, go)?;
        change.iter().try_for_each(|letter| write::update_letter(script, letter))?;
        write::insert_letters(script, come)?;

        let Sorted { go, change, come } = &self.uniques;
        go.iter().try_for_each(|(shard, key)| write::delete_unique(script, *shard, key))?;
        change.iter().try_for_each(|(shard, unique)| write::update_unique(script, *shard, unique))?;
        write::insert_uniques(script, come)?;

        let Sorted { go, change, come } = &self.skips;
        go.iter().try_for_each(|(job, revision, from)| write::delete_skip(script, *job, *revision, *from))?;
        change.iter().try_for_each(|skip| write::update_skip(script, skip))?;
        write::insert_skips(script, come)?;

        let Sorted { go, change, come } = &self.queues;
        go.iter().try_for_each(|(shard, number)| messages::delete_queue(script, *shard, *number))?;
        change.iter().try_for_each(|(shard, queue)| messages::update_queue(script, *shard, queue))?;
        messages::insert_queues(script, come)?;

        let Sorted { go, change, come } = &self.messages;
        messages::delete(script, go)?;
        messages::update(script, change)?;
        messages::insert(script, come)
    }
}

/// Writes job changes of one kind.
fn write_jobs(script: &mut Script, alike: &[JobChange<'_>]) -> Result<()> {
    let mut come = Vec::new();
    let mut moves = Vec::new();
    let mut go = Vec::new();
    for change in alike {
        match *change {
            JobChange::Come(batch, job) => come.push((batch, job)),
            JobChange::Move(job) => moves.push(job),
            JobChange::Edit(batch, job) => write::edit_job(script, batch, job)?,
            JobChange::Go(id) => go.push(id.0),
        }
    }
    write::insert_jobs(script, &come)?;
    write::move_jobs(script, &moves)?;
    write::delete_jobs(script, &go)
}
