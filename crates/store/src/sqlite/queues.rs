//! What is read of queues: the line of one for its leader, and pages for the doors.

use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::name::Namespace;
use punctual_core::queue::{Message, MessageId, Place, QueueKey, QueueNumber, QueueRecord};
use rusqlite::Params;

use super::doors::rows_max;
use super::failure::Failure;
use super::reader::Snapshot;
use super::{queries, rows};
use crate::End;
use crate::listing::QueueSpan;
use crate::weight::Weight;

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Snapshot<'_> {
    pub(super) fn message(&self, id: MessageId) -> Result<Option<Arc<Message>>> {
        self.one(queries::messages::FIND, (id.shard().0, id.queue.0, id.number), rows::message)
    }

    pub(super) fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        self.line(queries::messages::BACKLOG, (shard.0, queue.0), after, limit)
    }

    pub(super) fn messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        match self.named(queue)? {
            Some(queue) => self.line(queries::messages::LIST, queue, after.unwrap_or(Place::START), limit),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn line_from(&self, queue: &QueueKey, from: End, limit: usize) -> Result<Vec<Arc<Message>>> {
        let Some((shard, number)) = self.named(queue)? else { return Ok(Vec::new()) };
        match from {
            End::First => self.line(queries::messages::BACKLOG, (shard, number), Place::START, limit),
            End::Last => self.page(queries::messages::LAST_IN_LINE, (shard, number, rows_max(limit))),
        }
    }

    /// The shard and the number of a queue.
    fn named(&self, queue: &QueueKey) -> Result<Option<(u16, u32)>> {
        let name = (queue.namespace.as_str(), queue.name.as_str());
        self.one(queries::queues::NAMED, name, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn line(
        &self,
        sql: &str,
        (shard, queue): (u16, u32),
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        self.page(sql, (shard, queue, after.rank, after.number, rows_max(limit)))
    }

    fn page(&self, sql: &str, params: impl Params) -> Result<Vec<Arc<Message>>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params)?;
        let (mut page, mut weight) = (Vec::new(), Weight::default());
        while !weight.is_full()
            && let Some(row) = found.next()?
        {
            let message = rows::message(row)?;
            weight.add(&message);
            page.push(message);
        }
        Ok(page)
    }

    pub(super) fn queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>> {
        let Some(QueueSpan { namespace, after, goes_beyond }) = QueueSpan::of(namespace, after) else {
            return Ok(Vec::new());
        };
        let sql = if goes_beyond { queries::queues::LIST } else { queries::queues::LIST_OF_NAMESPACE };
        self.all(sql, (namespace, after, rows_max(limit)), rows::queue)
    }
}
