//! Young messages: messages that are stored in a log and are not rows yet.
//!
//! Most messages are acknowledged a moment after they were added, and inserting and deleting a row and its index
//! entries would cost as much as all other work for them. So a small queued message is first kept in memory and
//! recorded in a log: one entry per commit, in the same file and the same transaction as the other changes, so that log
//! and rows agree after a crash. When the log has grown too long, the messages of its oldest entry that still exist
//! become rows, and the entry is deleted.
//!
//! writer ──▶ staged ──entry──▶ log
//!               └──▶ young ◀── readers
//!
//! A reader takes its snapshot while it holds the lock on the young messages ([`Shared`]): it sees each message once.

mod log;
mod staged;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use punctual_core::change::TimerPlace;
use punctual_core::ids::{RunId, ShardId};
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::queue::{Message, MessageId, Place, QueueNumber};
use rusqlite::Connection;

pub(super) use self::staged::{Staged, begins_young};
use super::failure::Failure;
use super::queries;

/// Bytes that the log may have; beyond it, the next commit removes its oldest entries. Opening a store reads that much.
const LOG_BYTES_MAX: usize = 4 << 20;
/// A message with a larger body becomes a row at once: as a young message it might be written twice.
const BODY_BYTES_MAX: usize = 4 << 10;

/// The writer holds the lock for writing while it commits.
pub(super) type Shared = Arc<RwLock<Young>>;
/// The writer cannot commit a change of young messages while a reader holds this: drop it before a longer read.
pub(super) type Guard<'y> = RwLockReadGuard<'y, Young>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    shard: ShardId,
    queue: QueueNumber,
    place: Place,
}

impl Key {
    pub(super) fn new(queue: QueueNumber, place: Place) -> Key {
        Key { shard: RunId(place.number).shard(), queue, place }
    }

    pub(super) fn of(message: &Message) -> Key {
        Key::new(message.id.queue, message.place())
    }
}

#[derive(Debug)]
pub(super) struct Young {
    messages: BTreeMap<Key, Kept>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The bytes of all entries.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Kept {
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

impl Young {
    fn new() -> Young {
        Young { messages: BTreeMap::new(), entries: VecDeque::new(), bytes: 0, bytes_max: LOG_BYTES_MAX }
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
    pub(super) fn load(connection: &Connection) -> Result<Young, Failure> {
        let mut young = Young::new();
        let mut statement = connection.prepare(queries::young::ALL)?;
        let mut entries = statement.query([])?;
        while let Some(entry) = entries.next()? {
            let (number, bytes) =
                (entry.get(0)?, entry.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
            young.replay(number, bytes)?;
        }
        Ok(young)
    }

    /// A change of a message that is not young any more is ignored: its row has been written since.
    fn replay(&mut self, number: i64, bytes: &[u8]) -> crate::Result<()> {
        let mut added = Vec::new();
        for record in log::records(bytes)? {
            match record? {
                log::Record::Added(message) => {
                    added.push(Key::of(&message));
                    self.messages.insert(Key::of(&message), Kept { message, entry: number });
                }
                log::Record::Changed { key, head } => {
                    if let Some(kept) = self.messages.get_mut(&key) {
                        kept.message = log::with_head(key, head, &kept.message)?;
                    }
                }
                log::Record::Gone(key) => {
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
        let place = |rank| Place { rank, number: id.number };
        (0..=PRIORITY_MAX).find_map(|rank| self.get(&Key::new(id.queue, place(rank)))).cloned()
    }

    fn get(&self, key: &Key) -> Option<&Arc<Message>> {
        self.messages.get(key).map(|kept| &kept.message)
    }

    /// The young messages of a queue after a place, in order.
    pub(super) fn behind(
        &self,
        (shard, queue): (ShardId, QueueNumber),
        after: Place,
    ) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        let last = Place { rank: u8::MAX, number: i64::MAX };
        let bounds = [Bound::Excluded(after), Bound::Included(last)]
            .map(|bound| bound.map(|place| Key { shard, queue, place }));
        self.messages.range::<Key, _>((bounds[0], bounds[1])).map(|(_, kept)| &kept.message)
    }

    /// The next young messages of a shard by wake time, after a place among its timers. This scans the shard: an index
    /// by time would cost something for every message, and this is seldom called.
    pub(super) fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Vec<Arc<Message>> {
        let from = Key { shard, queue: QueueNumber(0), place: Place { rank: 0, number: i64::MIN } };
        let of_shard = self.messages.range(from..).take_while(|(key, _)| key.shard == shard);
        let timers = of_shard.map(|(_, kept)| (timer(&kept.message), &kept.message));
        let mut due: Vec<_> = timers.filter(|(timer, _)| *timer > after).collect();
        if limit < due.len() {
            due.select_nth_unstable_by_key(limit, |(timer, _)| *timer);
            due.truncate(limit);
        }
        due.sort_unstable_by_key(|(timer, _)| *timer);
        due.into_iter().map(|(_, message)| Arc::clone(message)).collect()
    }
}

/// The place of a message among the timers.
pub(super) fn timer(message: &Message) -> TimerPlace {
    TimerPlace { at: message.wake_at(), id: message.id.number }
}
