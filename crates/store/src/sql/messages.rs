//! Reads of queues and their messages.
//!
//! Bodies may be large, so a page ends when its bodies reach `limits::PAGE_BYTES_MAX`. PostgreSQL sums their sizes while
//! it reads; MySQL is first asked for the sizes, then for the messages that fit.

use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::queue::{Message, MessagePosition, QueueKey, QueueNumber};

use super::connection::{Ask, Connection, ask};
use super::decode;
use super::dialect::Dialect;
use super::queries::{MessagePage, messages, queues};
use super::value::Value;
use crate::{End, Result};

/// Which messages of a queue are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    /// Queued or not, after a place.
    All {
        after: MessagePosition,
    },
    Queued {
        after: MessagePosition,
    },
    QueuedFromEnd,
}

impl From<End> for Which {
    fn from(end: End) -> Self {
        match end {
            End::First => Which::Queued { after: MessagePosition::START },
            End::Last => Which::QueuedFromEnd,
        }
    }
}

impl Which {
    /// The statement and its parameters, without the limit.
    pub(crate) fn statement(
        self,
        (shard, queue): (ShardId, QueueNumber),
    ) -> (&'static MessagePage, Vec<Value<'static>>) {
        let mut values = vec![shard.0.into(), queue.0.into()];
        match self {
            Which::QueuedFromEnd => (&messages::BACKLOG_FROM_END, values),
            Which::All { after } | Which::Queued { after } => {
                values.extend([after.rank.into(), after.number.into()]);
                let is_all = matches!(self, Which::All { .. });
                (if is_all { &messages::LIST } else { &messages::BACKLOG }, values)
            }
        }
    }
}

pub(crate) async fn of_queue(
    c: &mut dyn Connection,
    queue: (ShardId, QueueNumber),
    which: Which,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    let (statement, values) = which.statement(queue);
    page(c, statement, values, limit).await
}

/// The shard and the number of a queue.
pub(crate) async fn number_of(
    c: &mut dyn Connection,
    queue: &QueueKey,
) -> Result<Option<(ShardId, QueueNumber)>> {
    let named = ask!(queues::NAMED, queue.namespace.as_str(), queue.name.as_str().as_bytes());
    c.one(named, |row| Ok((ShardId(row.number(0)?), QueueNumber(row.number(1)?)))).await
}

/// A page of messages. SQLite reads row by row and has its own.
pub(super) async fn page(
    c: &mut dyn Connection,
    statement: &MessagePage,
    mut values: Vec<Value<'_>>,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    values.push(limit.into());
    if c.dialect() == Dialect::Postgres {
        values.push(PAGE_BYTES_MAX.into());
        return c.all(Ask { sql: statement.limited, values }, decode::message).await;
    }
    let (mut bytes, mut fitting) = (0, 0_usize);
    let sizes = Ask { sql: statement.sizes, values: values.clone() };
    c.query(&[sizes], &mut |_, row| {
        if bytes < PAGE_BYTES_MAX {
            bytes += row.number::<usize>(0)?;
            fitting += 1;
        }
        Ok(bytes < PAGE_BYTES_MAX)
    })
    .await?;
    if fitting == 0 {
        return Ok(Vec::new());
    }
    values.pop();
    values.push(fitting.into());
    c.all(Ask { sql: statement.read, values }, decode::message).await
}
