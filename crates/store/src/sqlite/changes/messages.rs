//! Writes messages: young messages are changed in their log, all others are rows.

use std::sync::Arc;

use punctual_core::change::RowKey;
use punctual_core::ids::ShardId;
use punctual_core::queue::{Message, Place, QueueNumber};
use rusqlite::Connection;

use super::{Result, Statements};
use crate::sqlite::queries;
use crate::sqlite::young::{Key, Staged, begins_young};
use crate::{codec, refusal};

impl Statements<'_> {
    pub(super) fn insert_message(&mut self, shard: ShardId, message: &Arc<Message>) -> Result<bool> {
        let begins_young = begins_young(message);
        if self.staged.has(self.young, &Key::of(message)) || begins_young && self.has_message_row(message)? {
            return Err(refusal::exists(shard, &RowKey::Message(message.id.queue, message.place())).into());
        }
        if !begins_young {
            return self.insert_message_row(message);
        }
        self.staged.add(message)?;
        Ok(true)
    }

    fn insert_message_row(&mut self, message: &Message) -> Result<bool> {
        codec::write_head(message, self.buffer)?;
        let (shard, place) = (message.id.shard(), message.place());
        self.rows_through.add(shard, place.number);
        let params = (
            shard.0,
            message.id.queue.0,
            place.rank,
            place.number,
            message.wake_at().as_millis(),
            message.is_queued(),
            self.buffer.as_slice(),
            &message.body[..],
        );
        Ok(self.insert_message.execute(self.connection, queries::messages::INSERT, params)? == 1)
    }

    fn has_message_row(&self, message: &Message) -> Result<bool> {
        let (shard, place) = (message.id.shard(), message.place());
        if !self.rows_through.may_be_row(shard, place.number) {
            return Ok(false);
        }
        let key = (shard.0, message.id.queue.0, place.rank, place.number);
        Ok(self.connection.prepare_cached(queries::messages::EXISTS)?.exists(key)?)
    }

    pub(super) fn update_message(&mut self, shard: ShardId, message: &Arc<Message>) -> Result<bool> {
        if self.staged.has(self.young, &Key::of(message)) {
            self.staged.change(message)?;
            return Ok(true);
        }
        codec::write_head(message, self.buffer)?;
        let place = message.place();
        let params = (
            shard.0,
            message.id.queue.0,
            place.rank,
            place.number,
            message.wake_at().as_millis(),
            message.is_queued(),
            self.buffer.as_slice(),
        );
        Ok(self.update_message.execute(self.connection, queries::messages::UPDATE, params)? == 1)
    }

    pub(super) fn delete_message(
        &mut self,
        shard: ShardId,
        queue: QueueNumber,
        place: Place,
    ) -> Result<bool> {
        let key = Key::new(queue, place);
        if self.staged.has(self.young, &key) {
            self.staged.remove(key);
            return Ok(true);
        }
        let params = (shard.0, queue.0, place.rank, place.number);
        Ok(self.delete_message.execute(self.connection, queries::messages::DELETE, params)? == 1)
    }

    /// Writes the log entry of the young messages, and rows for the messages of entries that are removed.
    pub(in crate::sqlite) fn finish(mut self) -> Result<Staged> {
        if !self.staged.entry().is_empty() {
            self.execute(queries::young::INSERT, (self.young.next_entry(), self.staged.entry()))?;
        }
        let mut retired = None;
        while let Some((entry, grown)) = self.staged.retire(self.young) {
            retired = Some(entry);
            for message in grown {
                self.insert_message_row(&message)?;
            }
        }
        if let Some(entry) = retired {
            self.connection.prepare_cached(queries::young::DELETE)?.execute([entry])?;
        }
        Ok(self.staged)
    }
}

/// For each shard, the highest number that a message row may have. Numbers grow and are never reused, so a message with
/// a higher number is known to have no row without a lookup.
#[derive(Debug)]
pub(in crate::sqlite) struct RowsThrough(Vec<i64>);

impl RowsThrough {
    pub(in crate::sqlite) fn load(connection: &Connection) -> Result<RowsThrough> {
        let mut statement = connection.prepare(queries::shards::LAST_IDS)?;
        let last_ids = statement.query_map([], |row| row.get(0))?;
        Ok(RowsThrough(last_ids.collect::<rusqlite::Result<_>>()?))
    }

    fn may_be_row(&self, shard: ShardId, number: i64) -> bool {
        self.0.get(usize::from(shard.0)).is_none_or(|through| number <= *through)
    }

    fn add(&mut self, shard: ShardId, number: i64) {
        if let Some(through) = self.0.get_mut(usize::from(shard.0)) {
            *through = number.max(*through);
        }
    }
}
