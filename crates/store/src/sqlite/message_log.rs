//! The message log: messages that are not rows yet.
//!
//! Most messages are acknowledged a moment after they were added, and inserting and deleting a row and its index
//! entries would cost as much as all other work for them. So a small queued message is first kept in memory and
//! recorded in a log: one entry per commit, in the same file and the same transaction as the other changes, so that log
//! and rows agree after a crash. When the log has grown too long, the messages of its oldest entry that still exist
//! become rows, and the entry is deleted.
//!
//! writer ──▶ staged ──▶ entry
//!               └──▶ message_log ◀── readers
//!
//! A reader takes its snapshot while it holds the lock on the message log ([`Shared`]): it sees each message once.

mod entry;
mod staged;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use punctual_core::change::TimerPosition;
use punctual_core::ids::{RunId, ShardId};
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::queue::{Message, MessageId, MessagePosition, QueueNumber};
use rusqlite::Connection;

pub(super) use self::staged::{Staged, begins_in_log};
use super::failure::Failure;
use super::queries;
use crate::sql::messages::Which;
use crate::sql::shard::message_place;

/// Bytes that the log may have; beyond it, the next commit removes its oldest entries. Opening a store reads that much.
const LOG_BYTES_MAX: usize = 4 << 20;
/// A message with a larger body becomes a row at once: in the log it might be written twice.
const BODY_BYTES_MAX: usize = 4 << 10;

/// The writer holds the lock for writing while it commits.
pub(super) type Shared = Arc<RwLock<MessageLog>>;
/// The writer cannot commit a change of the log while a reader holds this: drop it before a longer read.
pub(super) type Guard<'l> = RwLockReadGuard<'l, MessageLog>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    shard: ShardId,
    queue: QueueNumber,
    place: MessagePosition,
}

impl Key {
    pub(super) fn new(queue: QueueNumber, place: MessagePosition) -> Key {
        Key { shard: RunId(place.number).shard(), queue, place }
    }

    pub(super) fn of(message: &Message) -> Key {
        Key::new(message.id.queue, message.position())
    }
}

#[derive(Debug)]
pub(super) struct MessageLog {
    messages: BTreeMap<Key, Logged>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The bytes of all entries.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Logged {
    message: Arc<Message>,
    /// The number of the log entry that added it.
    entry: i64,
}

#[derive(Debug)]
struct Entry {
    number: i64,
    bytes: usize,
    added: Vec<Key>,
}

impl MessageLog {
    fn new() -> MessageLog {
        MessageLog { messages: BTreeMap::new(), entries: VecDeque::new(), bytes: 0, bytes_max: LOG_BYTES_MAX }
    }

    /// Changes the limit of the log's bytes.
    #[cfg(test)]
    pub(super) fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.messages.len()
    }

    /// Reads the log when a store is opened.
    pub(super) fn load(connection: &Connection) -> Result<MessageLog, Failure> {
        let mut log = MessageLog::new();
        let mut statement = connection.prepare(queries::message_log::ALL)?;
        let mut entries = statement.query([])?;
        while let Some(entry) = entries.next()? {
            let (number, bytes) =
                (entry.get(0)?, entry.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
            log.replay(number, bytes)?;
        }
        Ok(log)
    }

    /// A change of a message that is not in the log any more is ignored: its row has been written since.
    fn replay(&mut self, number: i64, bytes: &[u8]) -> crate::Result<()> {
        let mut added = Vec::new();
        for record in entry::records(bytes)? {
            match record? {
                entry::Record::Added(message) => {
                    added.push(Key::of(&message));
                    self.messages.insert(Key::of(&message), Logged { message, entry: number });
                }
                entry::Record::Changed { key, head } => {
                    if let Some(kept) = self.messages.get_mut(&key) {
                        kept.message = entry::with_head(key, head, &kept.message)?;
                    }
                }
                entry::Record::Gone(key) => {
                    self.messages.remove(&key);
                }
            }
        }
        self.append(Entry { number, bytes: bytes.len(), added });
        Ok(())
    }

    fn append(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    pub(super) fn find(&self, id: MessageId) -> Option<Arc<Message>> {
        let place = |rank| MessagePosition { rank, number: id.number };
        (0..=PRIORITY_MAX).find_map(|rank| self.get(&Key::new(id.queue, place(rank)))).cloned()
    }

    fn get(&self, key: &Key) -> Option<&Arc<Message>> {
        self.messages.get(key).map(|kept| &kept.message)
    }

    /// The messages of a queue on one page, in its order.
    pub(super) fn page(
        &self,
        (shard, queue): (ShardId, QueueNumber),
        which: Which,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        let last = MessagePosition { rank: u8::MAX, number: i64::MAX };
        let after = match which {
            Which::All { after } | Which::Queued { after } => after,
            Which::QueuedFromEnd => MessagePosition::START,
        };
        let bounds = [Bound::Excluded(after), Bound::Included(last)]
            .map(|bound| bound.map(|place| Key { shard, queue, place }));
        let messages = self.messages.range::<Key, _>((bounds[0], bounds[1])).map(|(_, kept)| &kept.message);
        let queued = |message: &&Arc<Message>| message.is_queued();
        match which {
            Which::All { .. } => messages.take(limit).cloned().collect(),
            Which::Queued { .. } => messages.filter(queued).take(limit).cloned().collect(),
            Which::QueuedFromEnd => messages.rev().filter(queued).take(limit).cloned().collect(),
        }
    }

    /// The next messages of a shard by wake time, after a place among its timers. This scans the shard: an index
    /// by time would cost something for every message, and this is seldom called.
    pub(super) fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Vec<Arc<Message>> {
        let from = Key { shard, queue: QueueNumber(0), place: MessagePosition { rank: 0, number: i64::MIN } };
        let of_shard = self.messages.range(from..).take_while(|(key, _)| key.shard == shard);
        let timers = of_shard.map(|(_, kept)| (message_place(&kept.message), &kept.message));
        let mut due: Vec<_> = timers.filter(|(timer, _)| *timer > after).collect();
        if limit < due.len() {
            due.select_nth_unstable_by_key(limit, |(timer, _)| *timer);
            due.truncate(limit);
        }
        due.sort_unstable_by_key(|(timer, _)| *timer);
        due.into_iter().map(|(_, message)| Arc::clone(message)).collect()
    }
}
