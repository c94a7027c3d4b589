//! Reads of queues: queued messages for the leader, and pages for the endpoints.

use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{Message, MessageId, Place, QueueKey, QueueNumber, QueueRecord};

use super::doors::rows_max;
use super::link::{Ask, ask};
use super::pool::Taken;
use super::writes::{column, number};
use super::{Postgres, queries, rows};
use crate::listing::QueueSpan;
use crate::{End, Result};

impl Postgres {
    pub(super) async fn next_in_line(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let ask = page(queries::messages::BACKLOG, (number(shard), i64::from(queue.0)), after, limit);
        let found = self.leader.take().await?.read(ask).await?;
        found.iter().map(rows::message).collect()
    }

    pub(super) async fn list_messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let mut link = self.doors.take().await?;
        let Some(queue) = number_of(&mut link, queue).await? else { return Ok(Vec::new()) };
        let after = after.unwrap_or(Place::START);
        let found = link.read(page(queries::messages::LIST, queue, after, limit)).await?;
        found.iter().map(rows::message).collect()
    }

    pub(super) async fn line_from(
        &self,
        queue: &QueueKey,
        from: End,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let mut link = self.doors.take().await?;
        let Some((shard, queue)) = number_of(&mut link, queue).await? else { return Ok(Vec::new()) };
        let ask = match from {
            End::First => page(queries::messages::BACKLOG, (shard, queue), Place::START, limit),
            End::Last => {
                let (bytes, most) = (rows_max(PAGE_BYTES_MAX), rows_max(limit));
                ask!(queries::messages::LAST_IN_LINE, bytes, most, shard, queue)
            }
        };
        let found = link.read(ask).await?;
        found.iter().map(rows::message).collect()
    }

    pub(super) async fn list_queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        let Some(QueueSpan { namespace, after, goes_beyond }) = QueueSpan::of(namespace, after) else {
            return Ok(Vec::new());
        };
        let sql = if goes_beyond { queries::queues::LIST } else { queries::queues::LIST_OF_NAMESPACE };
        let ask = ask!(sql, namespace.to_owned(), after.as_bytes().to_vec(), rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(rows::queue).collect()
    }
}

/// The shard and the number of a queue.
async fn number_of(link: &mut Taken<'_>, queue: &QueueKey) -> Result<Option<(i16, i64)>> {
    let (namespace, name) = (queue.namespace.as_str().to_owned(), queue.name.as_str().as_bytes().to_vec());
    let named = link.read(ask!(queries::queues::NAMED, namespace, name)).await?;
    named.first().map(|row| Ok((rows::get(row, 0)?, rows::get(row, 1)?))).transpose()
}

fn page(sql: &'static str, (shard, queue): (i16, i64), after: Place, limit: usize) -> Ask {
    let (bytes, most) = (rows_max(PAGE_BYTES_MAX), rows_max(limit));
    ask!(sql, bytes, most, shard, queue, i16::from(after.rank), after.number)
}

pub(super) fn find(ids: &[MessageId]) -> Ask {
    ask!(
        queries::messages::FIND,
        column(ids, |id| number(id.shard())),
        column(ids, |id| i64::from(id.queue.0)),
        column(ids, |id| id.number),
    )
}
