//! Writes messages: those in the message log are changed there, all others are rows.

use std::sync::Arc;

use punctual_core::change::RowKey;
use punctual_core::ids::ShardId;
use punctual_core::queue::{Message, MessagePosition, QueueNumber};
use rusqlite::Connection;

use super::{Result, Statements};
use crate::refusal;
use crate::sql::tables::{DELETE_MESSAGE, INSERT_MESSAGE, UPDATE_MESSAGE, of_message};
use crate::sqlite::message_log::{Key, Staged, begins_in_log};
use crate::sqlite::queries;

impl Statements<'_> {
    pub(super) fn insert_message(&mut self, shard: ShardId, message: &Arc<Message>) -> Result<bool> {
        let begins_in_log = begins_in_log(message);
        if self.staged.has(self.log, &Key::of(message)) || begins_in_log && self.has_message_row(message)? {
            return Err(refusal::exists(shard, &RowKey::Message(message.id.queue, message.position())).into());
        }
        if !begins_in_log {
            return self.insert_message_row(message);
        }
        self.staged.add(message)?;
        Ok(true)
    }

    fn insert_message_row(&mut self, message: &Arc<Message>) -> Result<bool> {
        self.rows_through.add(message.id.shard(), message.id.number);
        self.write_row(INSERT_MESSAGE, &of_message(message)?)
    }

    fn has_message_row(&self, message: &Message) -> Result<bool> {
        let (shard, place) = (message.id.shard(), message.position());
        if !self.rows_through.may_be_row(shard, place.number) {
            return Ok(false);
        }
        let key = (shard.0, message.id.queue.0, place.rank, place.number);
        Ok(self.connection.prepare_cached(queries::messages::EXISTS)?.exists(key)?)
    }

    pub(super) fn update_message(&mut self, message: &Arc<Message>) -> Result<bool> {
        if self.staged.has(self.log, &Key::of(message)) {
            self.staged.change(message)?;
            return Ok(true);
        }
        self.write_row(UPDATE_MESSAGE, &of_message(message)?)
    }

    pub(super) fn delete_message(
        &mut self,
        shard: ShardId,
        queue: QueueNumber,
        place: MessagePosition,
    ) -> Result<bool> {
        let key = Key::new(queue, place);
        if self.staged.has(self.log, &key) {
            self.staged.remove(key);
            return Ok(true);
        }
        let values = [shard.0.into(), queue.0.into(), place.rank.into(), place.number.into()];
        self.write_row(DELETE_MESSAGE, &values)
    }

    /// Writes the entry of the message log, and rows for the messages of entries that are removed.
    pub(in crate::sqlite) fn finish(mut self) -> Result<Staged> {
        if !self.staged.entry().is_empty() {
            self.execute(queries::message_log::INSERT, (self.log.next_entry(), self.staged.entry()))?;
        }
        let mut retired = None;
        while let Some((entry, surviving)) = self.staged.retire(self.log) {
            retired = Some(entry);
            for message in surviving {
                self.insert_message_row(&message)?;
            }
        }
        if let Some(entry) = retired {
            self.connection.prepare_cached(queries::message_log::DELETE)?.execute([entry])?;
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
