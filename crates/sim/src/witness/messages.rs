//! Checks the rows of queues: one add makes one message, one key has one message, a message disappears only for a reason,
//! and the counts in a queue's row are right. The settings of queues are kept, see [`moves`](super::moves) for dead letters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::ShardId;
use punctual_core::queue::{
    Content, END_NOTICES, EndNotice, Message, MessagePosition, MessageStatus, QueueKey, QueueNumber,
    QueueRecord, QueueSettings, QueueStat,
};
use punctual_core::topic::What;
use rustc_hash::{FxHashMap, FxHashSet};

use super::moves::Moves;
use super::{Seen, Verdict};
use crate::traffic::{is_never_consumed, number_of};

type Of = (ShardId, QueueNumber);

#[derive(Debug, Default)]
pub(crate) struct Messages {
    rows: FxHashMap<i64, Arc<Message>>,
    queues: BTreeMap<Of, Rows>,
    /// The message that was made for each body.
    made: FxHashMap<u64, i64>,
    /// Bodies that were refused.
    refused: FxHashSet<u64>,
    /// Messages that a client has acknowledged or deleted, perhaps without effect yet.
    dismissed: FxHashSet<i64>,
    moves: Moves,
    /// Messages that were handed to jobs.
    handed: FxHashSet<i64>,
    /// The number of flushes of each queue that may still be in flight.
    flushing: BTreeMap<QueueKey, u32>,
    /// When each queue was last flushed.
    flushed: BTreeMap<QueueKey, u64>,
}

#[derive(Debug, Default)]
struct Rows {
    record: Option<QueueRecord>,
    queued: BTreeSet<MessagePosition>,
    all: BTreeSet<MessagePosition>,
    unacked: BTreeSet<MessagePosition>,
    /// As they were before the batch, like the number of unacknowledged messages.
    settings: Option<Arc<QueueSettings>>,
    unacked_before: usize,
}

impl Messages {
    /// Checks the queue rows of a batch. `reached` is the latest engine time of any node so far.
    pub(super) fn landed(&mut self, batch: &Batch, reached: Timestamp, seen: &mut Seen) -> Verdict {
        let mut touched = BTreeSet::new();
        let is_notice = |key: &RowKey| matches!(key, RowKey::Message(END_NOTICES, _));
        self.note_handed(batch, seen);
        self.moves.landed(batch, seen);
        let changes = || batch.changes.iter().filter(|(key, _)| !is_notice(key));
        for (key, change) in changes() {
            match (key, change) {
                (RowKey::Message(number, place), Change::Delete) => {
                    let of = (batch.shard, *number);
                    touched.insert(of);
                    self.went(of, *place, reached, seen)?;
                }
                (RowKey::Queue(number), Change::Delete) => {
                    let gone = self.queues.remove(&(batch.shard, *number)).unwrap_or_default();
                    if !gone.all.is_empty() {
                        return Err(format!("queue {number:?} was deleted with {} messages", gone.all.len()));
                    }
                }
                (_, Change::Insert(Row::Queue(record)) | Change::Update(Row::Queue(record))) => {
                    let of = (batch.shard, record.number);
                    touched.insert(of);
                    self.queues.entry(of).or_default().record = Some(record.clone());
                }
                _ => {}
            }
        }
        // Deleted rows come first: their keys are free in the same batch.
        for (_, change) in changes() {
            let (message, is_new) = match change {
                Change::Insert(Row::Message(message)) => (message, true),
                Change::Update(Row::Message(message)) => (message, false),
                _ => continue,
            };
            let of = (batch.shard, message.id.queue);
            touched.insert(of);
            if is_new {
                seen.messages += 1;
                self.came(of, message)?;
            }
            self.stands(of, message)?;
        }
        self.moves.are_gone(batch, |id| self.rows.contains_key(&id))?;
        touched.into_iter().try_for_each(|of| self.counts(of))
    }

    /// Notes the messages that were handed to jobs: they are acknowledged with that, and come again if the jobs are gone.
    fn note_handed(&mut self, batch: &Batch, seen: &mut Seen) {
        for (_, change) in batch.changes.iter() {
            let Change::Insert(Row::Message(row)) = change else { continue };
            if let Some(EndNotice { content: Content::Wake(wake), .. }) = EndNotice::of(row)
                && matches!(wake.happening.what, What::Message(_))
            {
                seen.handed += 1;
                self.handed.insert(wake.happening.id);
                self.dismissed.insert(wake.happening.id);
            }
        }
    }

    fn came(&mut self, of: Of, message: &Message) -> Verdict {
        let (number, id) = (number_of(&message.body), message.id.number);
        let has_arrived = self.moves.arrived(number);
        if let Some(first) = self.made.insert(number, id)
            && !self.handed.contains(&first)
            && !has_arrived
        {
            return Err(format!(
                "one add, one message: body {number} is in message {first} and in message {id}"
            ));
        }
        if self.refused.contains(&number) {
            return Err(format!("the add of body {number} was refused, but made message {id}"));
        }
        let Some(key) = &message.key else { return Ok(()) };
        let others = self.queues.get(&of).into_iter().flat_map(|rows| &rows.all);
        let mut others = others.filter_map(|place| self.rows.get(&place.number));
        let living = |other: &&Arc<Message>| {
            other.key.as_ref() == Some(key) && other.expires_at > message.created_at && other.id != message.id
        };
        match others.find(living) {
            Some(other) => Err(format!(
                "one key, one message: message {} has key `{key}` until {}, but message {id} was made with it at {}",
                other.id.number, other.expires_at, message.created_at
            )),
            None => Ok(()),
        }
    }

    fn stands(&mut self, of: Of, message: &Arc<Message>) -> Verdict {
        let rows = self.queues.entry(of).or_default();
        rows.all.insert(message.position());
        if message.is_queued() {
            rows.queued.insert(message.position());
        } else {
            rows.queued.remove(&message.position());
        }
        match message.is_unacked() {
            true => rows.unacked.insert(message.position()),
            false => rows.unacked.remove(&message.position()),
        };
        match self.rows.insert(message.id.number, Arc::clone(message)) {
            Some(old) if (&old.body, old.expires_at) != (&message.body, message.expires_at) => {
                Err(format!("message {} has changed its body or expiry", message.id.number))
            }
            _ => Ok(()),
        }
    }

    fn went(&mut self, of: Of, place: MessagePosition, reached: Timestamp, seen: &mut Seen) -> Verdict {
        let rows = self.queues.entry(of).or_default();
        rows.all.remove(&place);
        rows.queued.remove(&place);
        rows.unacked.remove(&place);
        let has_dead_letters = rows.settings.as_ref().is_some_and(|settings| settings.dead_letter.is_some());
        let Some(message) = self.rows.remove(&place.number) else { return Ok(()) };
        let is_over = message.expires_at <= reached;
        seen.messages_expired += u64::from(is_over);
        let is_flushed = self.key_of(of).is_some_and(|key| self.is_flushing(key));
        let may_expire = is_over && !has_dead_letters;
        if may_expire
            || is_flushed
            || self.moves.was_moved(place.number)
            || self.dismissed.contains(&place.number)
        {
            return Ok(());
        }
        Err(format!(
            "never lost: message {} expires at {} and is gone, but no client deleted it",
            place.number, message.expires_at
        ))
    }

    fn counts(&mut self, of: Of) -> Verdict {
        let Some(rows) = self.queues.get_mut(&of) else { return Ok(()) };
        let record = rows.record.as_ref();
        let said = record.map_or((0, 0, 0), |record| (record.queued, record.messages, record.unacked));
        let there = (rows.queued.len() as u64, rows.all.len() as u64, rows.unacked.len() as u64);
        if said != there {
            return Err(format!(
                "a queue's row counts {} queued and {} unacknowledged of {} messages, but there are {} and {} of {}",
                said.0, said.2, said.1, there.0, there.2, there.1
            ));
        }
        let before = std::mem::replace(&mut rows.unacked_before, rows.unacked.len());
        let settings = record.and_then(|record| record.settings.clone());
        let settings = std::mem::replace(&mut rows.settings, settings);
        match settings.and_then(|settings| settings.running) {
            Some(most) if rows.unacked.len() > before.max(most as usize) => Err(format!(
                "running: {} messages of a queue are unacknowledged, and its settings allow {most}",
                rows.unacked.len()
            )),
            _ => Ok(()),
        }
    }

    /// Whether the queue puts off a message that nobody takes.
    pub(super) fn puts_off(&self, key: &QueueKey) -> bool {
        let records = self.queues.values().filter_map(|rows| rows.record.as_ref());
        let settings =
            records.filter(|record| record.key == *key).find_map(|record| record.settings.as_ref());
        settings.is_some_and(|settings| settings.hold.is_some())
    }

    /// Whether the message was moved to a dead-letter queue.
    pub(super) fn was_moved(&self, number: i64) -> bool {
        self.moves.was_moved(number)
    }

    /// Checks the counts that a queue reports while nothing is in flight.
    pub(super) fn quiet(&self, key: &QueueKey, stat: Option<&QueueStat>, seen: &mut Seen) -> Verdict {
        seen.queues_counted += 1;
        let rows = self.queues.values().find(|rows| rows.record.as_ref().is_some_and(|own| own.key == *key));
        let there = rows.map_or((0, 0), |rows| (rows.queued.len() as u64, rows.all.len() as u64));
        let said = stat.map_or((0, 0), |stat| (stat.len, stat.messages));
        if said != there {
            return Err(format!(
                "queue {} reports {} queued of {} messages, but there are {} of {}",
                key.name, said.0, said.1, there.0, there.1
            ));
        }
        match stat.map_or(0, |stat| stat.waiting) {
            0 => Ok(()),
            waiting => {
                Err(format!("queue {} reports {waiting} waiting consumers, but there are none", key.name))
            }
        }
    }

    pub(super) fn key_of(&self, of: Of) -> Option<&QueueKey> {
        self.queues.get(&of)?.record.as_ref().map(|record| &record.key)
    }

    /// Whether the message was handed to jobs.
    pub(super) fn was_handed(&self, number: i64) -> bool {
        self.handed.contains(&number)
    }

    pub(super) fn get(&self, number: i64) -> Option<&Arc<Message>> {
        self.rows.get(&number)
    }

    pub(super) fn refused(&mut self, number: u64) -> Verdict {
        self.refused.insert(number);
        match self.made.get(&number) {
            Some(message) => {
                Err(format!("the add of body {number} was refused, but had made message {message}"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn dismissed(&mut self, number: i64) {
        self.dismissed.insert(number);
    }

    pub(super) fn flush_asked(&mut self, key: &QueueKey, time: u64) {
        *self.flushing.entry(key.clone()).or_insert(0) += 1;
        self.flushed.insert(key.clone(), time);
    }

    /// Whether a message that is added now may be flushed at once. The answers of one commit arrive in any order, so the
    /// answer to the flush may have arrived first.
    pub(super) fn may_be_flushed(&self, key: &QueueKey, time: u64) -> bool {
        self.is_flushing(key) || self.flushed.get(key) == Some(&time)
    }

    fn is_flushing(&self, key: &QueueKey) -> bool {
        self.flushing.contains_key(key)
    }

    pub(super) fn was_flushed(&self, key: &QueueKey) -> bool {
        self.flushed.contains_key(key)
    }

    /// A flush was answered.
    pub(super) fn flush_answered(&mut self, key: &QueueKey, time: u64) {
        self.flushed.insert(key.clone(), time);
        if let Some(times) = self.flushing.get_mut(key) {
            *times -= 1;
            if *times == 0 {
                self.flushing.remove(key);
            }
        }
    }

    /// The messages of all queues that are consumed.
    pub(super) fn to_be_taken(&self) -> impl Iterator<Item = &Message> {
        let queues = self.queues.iter().filter(|(of, _)| !self.key_of(**of).is_some_and(is_never_consumed));
        let places = queues.flat_map(|(_, rows)| &rows.all);
        places.filter_map(|place| self.rows.get(&place.number)).map(|message| &**message)
    }

    /// Nothing is in flight any more: only messages that were delivered at most once and never acknowledged are left, and
    /// those of the queue that is never consumed.
    pub(super) fn at_rest(&self) -> Verdict {
        self.moves.at_rest()?;
        for message in self.to_be_taken() {
            if message.status != (MessageStatus::Active { until: None }) {
                return Err(format!(
                    "message {} is left ({:?}), but consumers should have taken every message",
                    message.id.number, message.status
                ));
            }
        }
        Ok(())
    }
}
