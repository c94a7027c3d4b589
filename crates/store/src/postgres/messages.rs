//! Queues and messages as column arrays, like the rows of `writes`.

use punctual_core::ids::ShardId;
use punctual_core::queue::{Message, Place, QueueNumber, QueueRecord};

use super::link::{Ask, ask};
use super::queries::{messages, queues};
use super::writes::{STATEMENT_BYTES_MAX, column, number};
use crate::{Result, codec};

pub(super) type MessageKey = (ShardId, QueueNumber, Place);

/// Initial buffer size; most heads fit.
const HEAD_BYTES: usize = 32;

pub(super) fn write_queues(sql: &'static str, rows: &[(ShardId, &QueueRecord)]) -> Ask {
    ask!(
        sql,
        column(rows, |(shard, _)| number(*shard)),
        column(rows, |(_, queue)| i64::from(queue.number.0)),
        column(rows, |(_, queue)| queue.key.namespace.as_str().to_owned()),
        column(rows, |(_, queue)| queue.key.name.as_str().as_bytes().to_vec()),
        column(rows, |(_, queue)| queue.created_at.as_millis()),
        column(rows, |(_, queue)| queue.pause.input),
        column(rows, |(_, queue)| queue.pause.output),
        column(rows, |(_, queue)| queue.queued.cast_signed()),
        column(rows, |(_, queue)| queue.messages.cast_signed()),
    )
}

pub(super) fn delete_queues(keys: &[(i16, i64)]) -> Ask {
    ask!(queues::DELETE, column(keys, |key| key.0), column(keys, |key| key.1))
}

/// Inserts messages, split into statements of limited size.
pub(super) fn insert(rows: &[&Message]) -> Result<Vec<Ask>> {
    let (mut asks, mut rest) = (Vec::new(), rows);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(fitting(rest));
        asks.push(ask!(
            messages::INSERT,
            column(piece, |message| number(message.id.shard())),
            column(piece, |message| i64::from(message.id.queue.0)),
            column(piece, |message| i16::from(message.place().rank)),
            column(piece, |message| message.id.number),
            column(piece, |message| message.wake_at().as_millis()),
            column(piece, |message| message.is_queued()),
            heads(piece)?,
            column(piece, |message| message.body.to_vec()),
        ));
        rest = after;
    }
    Ok(asks)
}

pub(super) fn update(rows: &[&Message]) -> Result<Vec<Ask>> {
    Ok(vec![ask!(
        messages::UPDATE,
        column(rows, |message| number(message.id.shard())),
        column(rows, |message| i64::from(message.id.queue.0)),
        column(rows, |message| i16::from(message.place().rank)),
        column(rows, |message| message.id.number),
        column(rows, |message| message.wake_at().as_millis()),
        column(rows, |message| message.is_queued()),
        heads(rows)?,
    )])
}

pub(super) fn delete(keys: &[MessageKey]) -> Ask {
    ask!(
        messages::DELETE,
        column(keys, |(shard, ..)| number(*shard)),
        column(keys, |(_, queue, _)| i64::from(queue.0)),
        column(keys, |(.., place)| i16::from(place.rank)),
        column(keys, |(.., place)| place.number),
    )
}

/// How many of the first messages fit into one statement; a single larger message is allowed.
fn fitting(rows: &[&Message]) -> usize {
    let mut bytes = 0;
    let fit = rows.iter().take_while(|message| {
        bytes += message.body.len();
        bytes <= STATEMENT_BYTES_MAX
    });
    fit.count().max(1)
}

fn heads(rows: &[&Message]) -> Result<Vec<Vec<u8>>> {
    let write = |message: &&Message| {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        codec::write_head(message, &mut head).map(|()| head)
    };
    rows.iter().map(write).collect()
}
