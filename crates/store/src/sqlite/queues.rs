//! Reads of queues: queued messages for the leader, and pages for the endpoints.

use std::cmp::Reverse;
use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::name::Namespace;
use punctual_core::queue::{Message, MessageId, Place, QueueKey, QueueNumber, QueueRecord};
use rusqlite::Params;

use super::doors::rows_max;
use super::failure::Failure;
use super::reader::Snapshot;
use super::young::Guard;
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
        young: Guard<'_>,
        queue: (ShardId, QueueNumber),
        after: Place,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let line = young.behind(queue, after).filter(|message| message.is_queued());
        let line = line.take(limit).cloned().collect();
        drop(young);
        self.page(queries::messages::BACKLOG, behind(queue, after, limit), line, limit, Message::place)
    }

    pub(super) fn messages(
        &self,
        young: Guard<'_>,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let Some(queue) = self.named(queue)? else { return Ok(Vec::new()) };
        let after = after.unwrap_or(Place::START);
        let line = young.behind(queue, after).take(limit).cloned().collect();
        drop(young);
        self.page(queries::messages::LIST, behind(queue, after, limit), line, limit, Message::place)
    }

    pub(super) fn line_from(
        &self,
        young: Guard<'_>,
        queue: &QueueKey,
        from: End,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let Some(queue) = self.named(queue)? else { return Ok(Vec::new()) };
        match from {
            End::First => self.backlog(young, queue, Place::START, limit),
            End::Last => {
                let line = young.behind(queue, Place::START).rev().filter(|message| message.is_queued());
                let line = line.take(limit).cloned().collect();
                drop(young);
                let params = (queue.0.0, queue.1.0, rows_max(limit));
                let backwards = |message: &Message| Reverse(message.place());
                self.page(queries::messages::LAST_IN_LINE, params, line, limit, backwards)
            }
        }
    }

    /// The shard and the number of a queue.
    fn named(&self, queue: &QueueKey) -> Result<Option<(ShardId, QueueNumber)>> {
        let name = (queue.namespace.as_str(), queue.name.as_str());
        self.one(queries::queues::NAMED, name, |row| Ok((ShardId(row.get(0)?), QueueNumber(row.get(1)?))))
    }

    /// Merges a page of rows with the young messages, both in the order of `place`.
    fn page<P: Ord>(
        &self,
        sql: &str,
        params: impl Params,
        young: Vec<Arc<Message>>,
        limit: usize,
        place: impl Fn(&Message) -> P,
    ) -> Result<Vec<Arc<Message>>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params)?;
        let mut young = young.into_iter().peekable();
        let mut row = found.next()?.map(rows::message).transpose()?;
        let (mut page, mut weight) = (Vec::new(), Weight::default());
        while page.len() < limit && !weight.is_full() {
            let is_first =
                |message: &Arc<Message>| row.as_ref().is_none_or(|row| place(message) < place(row));
            let next = match young.next_if(is_first) {
                Some(message) => message,
                None => match row.take() {
                    Some(message) => {
                        row = found.next()?.map(rows::message).transpose()?;
                        message
                    }
                    None => break,
                },
            };
            weight.add(&next);
            page.push(next);
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

/// The parameters of the statements in `queries::messages`, in their order.
fn behind((shard, queue): (ShardId, QueueNumber), after: Place, limit: usize) -> impl Params {
    (shard.0, queue.0, after.rank, after.number, rows_max(limit))
}
