//! The rows, and how a commit changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row, RowKey, TimerPosition};
use punctual_core::ids::{Epoch, JobId, RunId, SessionId, ShardId};
use punctual_core::log;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{MessagePosition, QueueKey, QueueNumber};
use punctual_core::schedule::calendar;
use punctual_core::task::StoredDescriptor;

use super::membership::Standing;
use crate::{Error, Result, mail, refusal, token};

/// A row's key and its shard: the text of a unique key does not contain the shard.
type Place = (RowKey, ShardId);

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) shards: Vec<Shard>,
    pub(super) rows: BTreeMap<Place, Row>,
    pub(super) names: BTreeMap<(Namespace, Name), JobId>,
    /// By name. The leader, not the store, makes sure that names are unique.
    pub(super) queues: BTreeSet<(QueueKey, ShardId, QueueNumber)>,
    pub(super) timers: BTreeSet<(ShardId, TimerPosition, RowKey)>,
    pub(super) logs: BTreeMap<(RunId, log::ChunkPosition), log::Chunk>,
    pub(super) calendars: BTreeMap<(Namespace, Name), Arc<calendar::Record>>,
    pub(super) descriptors: BTreeMap<(Namespace, Name), StoredDescriptor>,
    /// The last version given to any calendar or descriptor set.
    pub(super) calendar_version: u32,
    pub(super) sessions: BTreeMap<SessionId, Standing>,
    /// By recipient and place: when it was sent, and its body.
    pub(super) mail: BTreeMap<(SessionId, mail::MailPosition), (Timestamp, Vec<u8>)>,
    pub(super) agreed: BTreeMap<String, Vec<u8>>,
    pub(super) tokens: BTreeMap<String, token::Record>,
}

/// The row that fences a shard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shard {
    pub(super) epoch: Epoch,
    pub(super) commit: u64,
    pub(super) last_id: i64,
    pub(super) owner: Option<SessionId>,
    pub(super) heir: Option<SessionId>,
}

/// What has to be undone when a commit is refused.
enum Undo {
    Shard(ShardId, Shard),
    Row(Place, Option<Row>),
}

impl Tables {
    pub(super) fn new(shards: u16) -> Self {
        Tables {
            shards: vec![Shard::default(); usize::from(shards)],
            rows: BTreeMap::new(),
            names: BTreeMap::new(),
            queues: BTreeSet::new(),
            timers: BTreeSet::new(),
            logs: BTreeMap::new(),
            calendars: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            calendar_version: 0,
            sessions: BTreeMap::new(),
            mail: BTreeMap::new(),
            agreed: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    pub(super) fn commit(&mut self, batches: &[Batch]) -> Result<()> {
        let mut undo = Vec::new();
        let result = batches.iter().try_for_each(|batch| self.apply(batch, &mut undo));
        if result.is_err() {
            for step in undo.into_iter().rev() {
                match step {
                    Undo::Shard(shard, row) => self.shards[usize::from(shard.0)] = row,
                    Undo::Row(place, row) => {
                        self.put(place, row);
                    }
                }
            }
        }
        result
    }

    fn apply(&mut self, batch: &Batch, undo: &mut Vec<Undo>) -> Result<()> {
        let Batch { shard, epoch, commit, .. } = *batch;
        let row = self.shards.get_mut(usize::from(shard.0));
        let row = row.filter(|row| row.epoch == epoch && row.commit == commit);
        let row = row.ok_or(Error::Fenced { shard, epoch })?;
        undo.push(Undo::Shard(shard, *row));
        row.commit += 1;
        row.last_id = batch.last_id;
        for (key, change) in batch.changes.iter() {
            self.check(shard, key, change)?;
            let row = match change {
                Change::Insert(row) | Change::Update(row) => Some(row.clone()),
                Change::Delete => None,
            };
            let place = (key.clone(), shard);
            let old = self.put(place.clone(), row);
            undo.push(Undo::Row(place, old));
        }
        Ok(())
    }

    /// Refuses changes that can never be stored.
    fn check(&self, shard: ShardId, key: &RowKey, change: &Change) -> Result<()> {
        match (change, self.row(shard, key)) {
            (Change::Insert(_), Some(_)) => Err(refusal::exists(shard, key)),
            (Change::Insert(row), None) if name(row).is_some_and(|name| self.names.contains_key(&name)) => {
                Err(refusal::name_taken(shard, key))
            }
            (Change::Update(_) | Change::Delete, None) => Err(refusal::missing(shard, key)),
            (Change::Update(Row::Job(new)), Some(Row::Job(old)))
                if new.cursor.fired_through < old.cursor.fired_through =>
            {
                Err(refusal::cursor_back(shard, new.id))
            }
            _ => Ok(()),
        }
    }

    /// Inserts, replaces or (`None`) removes a row, and updates the indexes of names, queues and timers. Every change
    /// of a row goes through here.
    pub(super) fn put(&mut self, place: Place, row: Option<Row>) -> Option<Row> {
        let shard = place.1;
        let old = self.rows.remove(&place);
        if let Some(old) = &old {
            timer(shard, old).map(|timer| self.timers.remove(&timer));
            name(old).map(|name| self.names.remove(&name));
            queue(shard, old).map(|queue| self.queues.remove(&queue));
        }
        if let Some(new) = row {
            timer(shard, &new).map(|timer| self.timers.insert(timer));
            queue(shard, &new).map(|queue| self.queues.insert(queue));
            if let Row::Job(job) = &new {
                self.names.insert((job.namespace.clone(), job.name.clone()), job.id);
            }
            self.rows.insert(place, new);
        }
        old
    }

    pub(super) fn row(&self, shard: ShardId, key: &RowKey) -> Option<&Row> {
        self.rows.get(&(key.clone(), shard))
    }
}

fn name(row: &Row) -> Option<(Namespace, Name)> {
    match row {
        Row::Job(job) => Some((job.namespace.clone(), job.name.clone())),
        _ => None,
    }
}

fn queue(shard: ShardId, row: &Row) -> Option<(QueueKey, ShardId, QueueNumber)> {
    match row {
        Row::Queue(queue) => Some((queue.key.clone(), shard, queue.number)),
        _ => None,
    }
}

fn timer(shard: ShardId, row: &Row) -> Option<(ShardId, TimerPosition, RowKey)> {
    let (at, id) = match row {
        Row::Job(job) => (job.timer_at()?, job.id.0),
        Row::Run(run) => (run.wake_at()?, run.id.0),
        Row::Message(message) => (message.wake_at(), message.id.number),
        _ => return None,
    };
    Some((shard, TimerPosition { at, id }, row.key()))
}

/// Greater than every key of a row.
pub(super) fn last_key() -> RowKey {
    RowKey::Message(QueueNumber(u32::MAX), MessagePosition { rank: u8::MAX, number: i64::MAX })
}
