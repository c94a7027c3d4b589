//! The statements that write queues and messages, like those of `statements`.

use punctual_core::ids::ShardId;
use punctual_core::queue::{Message, Place, QueueNumber, QueueRecord};

use super::script::{Script, hex, int, put};
use super::statements::{Values, rows_come, rows_go};
use crate::{Result, codec};

pub(super) fn insert_queues(script: &mut Script, queues: &[(ShardId, &QueueRecord)]) -> Result<()> {
    let shape = rows_come(
        "INSERT INTO queues (shard, number, namespace, name, created_at, paused_input, paused_output, queued, messages) \
         VALUES ",
    );
    script.many(shape, queues, |sql, (shard, queue)| {
        let mut row = Values::begin(sql);
        row.int(shard.0).int(queue.number.0).hex(queue.key.namespace.as_str()).hex(queue.key.name.as_str());
        row.instant(queue.created_at).int(queue.pause.input).int(queue.pause.output);
        row.int(queue.queued.cast_signed()).int(queue.messages.cast_signed()).end();
        Ok(())
    })
}

/// Writes all columns: the same batch may delete a queue and reuse its number for another.
pub(super) fn update_queue(script: &mut Script, shard: ShardId, queue: &QueueRecord) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "UPDATE queues SET namespace = ");
        hex(sql, queue.key.namespace.as_str().as_bytes());
        put(sql, ", name = ");
        hex(sql, queue.key.name.as_str().as_bytes());
        let columns = [
            (", created_at = ", queue.created_at.as_millis()),
            (", paused_input = ", queue.pause.input.into()),
            (", paused_output = ", queue.pause.output.into()),
            (", queued = ", queue.queued.cast_signed()),
            (", messages = ", queue.messages.cast_signed()),
        ];
        for (before, value) in columns {
            put(sql, before);
            int(sql, value);
        }
        of_queue(sql, shard, queue.number);
        Ok(())
    })
}

pub(super) fn delete_queue(script: &mut Script, shard: ShardId, number: QueueNumber) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "DELETE FROM queues");
        of_queue(sql, shard, number);
        Ok(())
    })
}

fn of_queue(sql: &mut Vec<u8>, shard: ShardId, number: QueueNumber) {
    put(sql, " WHERE shard = ");
    int(sql, shard.0);
    put(sql, " AND number = ");
    int(sql, number.0);
}

pub(super) fn insert(script: &mut Script, messages: &[&Message]) -> Result<()> {
    let shape = rows_come(
        "INSERT INTO messages (shard, queue, rank_no, number, wake_at, queued, head, body) VALUES ",
    );
    let mut head = Vec::new();
    script.many(shape, messages, |sql, message| {
        codec::write_head(message, &mut head)?;
        let mut row = Values::begin(sql);
        row.int(message.id.shard().0).int(message.id.queue.0).int(message.place().rank);
        row.int(message.id.number).instant(message.wake_at()).int(message.is_queued());
        row.hex(&head).hex(&message.body[..]).end();
        Ok(())
    })
}

/// The body of a message never changes.
pub(super) fn update(script: &mut Script, messages: &[&Message]) -> Result<()> {
    let mut head = Vec::new();
    messages.iter().try_for_each(|message| {
        script.one(1, |sql| {
            codec::write_head(message, &mut head)?;
            put(sql, "UPDATE messages SET wake_at = ");
            int(sql, message.wake_at().as_millis());
            put(sql, ", queued = ");
            int(sql, message.is_queued());
            put(sql, ", head = ");
            hex(sql, &head);
            put(sql, " WHERE shard = ");
            int(sql, message.id.shard().0);
            put(sql, " AND queue = ");
            int(sql, message.id.queue.0);
            put(sql, " AND rank_no = ");
            int(sql, message.place().rank);
            put(sql, " AND number = ");
            int(sql, message.id.number);
            Ok(())
        })
    })
}

pub(super) fn delete(script: &mut Script, keys: &[(ShardId, QueueNumber, Place)]) -> Result<()> {
    let shape = rows_go(
        ") AS f STRAIGHT_JOIN messages AS t ON t.shard = f.shard AND t.queue = f.queue AND t.rank_no = f.rank_no \
         AND t.number = f.number",
    );
    script.many(shape, keys, |sql, (shard, queue, place)| {
        let columns = [
            ("SELECT ", i64::from(shard.0), " AS shard"),
            (", ", i64::from(queue.0), " AS queue"),
            (", ", i64::from(place.rank), " AS rank_no"),
            (", ", place.number, " AS number"),
        ];
        for (before, value, name) in columns {
            put(sql, before);
            int(sql, value);
            put(sql, name);
        }
        Ok(())
    })
}
