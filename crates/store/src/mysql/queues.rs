//! Reads of queues: queued messages for the leader, and pages for the endpoints.
//!
//! Bodies may be large, so a page first reads the sizes of the messages, then the messages that fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use mysql_async::{Params, Row};
use punctual_core::change::TimerPlace;
use punctual_core::ids::ShardId;
use punctual_core::limits::{PAGE_BYTES_MAX, PRIORITY_MAX};
use punctual_core::name::Namespace;
use punctual_core::queue::{Message, MessageId, Place, QueueKey, QueueNumber, QueueRecord};

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::link::Held;
use super::reader::KEYS_MAX;
use super::script::{int, list, put};
use super::{Mysql, queries, rows};
use crate::End;
use crate::listing::QueueSpan;
use crate::weight::Weight;

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Mysql {
    pub(super) async fn next_in_line(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    ) -> crate::Result<Vec<Arc<Message>>> {
        let mut held = self.leader.take().await?;
        let (at, beyond) = (queries::messages::BACKLOG_AT, queries::messages::BACKLOG_AFTER);
        let page = line(&mut held, (at, beyond), (shard.0, queue.0), after, limit).await;
        held.finish(page, Moment::Reading).await
    }

    pub(super) async fn list_messages(
        &self,
        queue: &QueueKey,
        after: Option<Place>,
        limit: usize,
    ) -> crate::Result<Vec<Arc<Message>>> {
        let mut held = self.door().await?;
        let page = messages_of(&mut held, queue, after, limit).await;
        held.finish(page, Moment::Reading).await
    }

    pub(super) async fn line_from(
        &self,
        queue: &QueueKey,
        from: End,
        limit: usize,
    ) -> crate::Result<Vec<Arc<Message>>> {
        let mut held = self.door().await?;
        let page = line_of(&mut held, queue, from, limit).await;
        held.finish(page, Moment::Reading).await
    }

    pub(super) async fn list_queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> crate::Result<Vec<QueueRecord>> {
        let mut held = self.door().await?;
        let found = queue_rows(&mut held, namespace, after, limit).await;
        let queues = found.and_then(|found| found.iter().map(rows::queue).collect());
        held.finish(queues, Moment::Reading).await
    }
}

async fn messages_of(
    held: &mut Held<'_>,
    queue: &QueueKey,
    after: Option<Place>,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    let Some(queue) = number_of(held, queue).await? else { return Ok(Vec::new()) };
    let parts = (queries::messages::LINE_AT, queries::messages::LINE_AFTER);
    line(held, parts, queue, after.unwrap_or(Place::START), limit).await
}

async fn line_of(
    held: &mut Held<'_>,
    queue: &QueueKey,
    from: End,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    let Some((shard, queue)) = number_of(held, queue).await? else { return Ok(Vec::new()) };
    if from == End::First {
        let parts = (queries::messages::BACKLOG_AT, queries::messages::BACKLOG_AFTER);
        return line(held, parts, (shard, queue), Place::START, limit).await;
    }
    held.snapshot().await?;
    let mut page = Page::new(limit);
    page.extend(held, queries::messages::LAST_IN_LINE, |most| (shard, queue, most).into()).await?;
    Ok(page.messages)
}

/// The shard and the number of a queue.
async fn number_of(held: &mut Held<'_>, queue: &QueueKey) -> Result<Option<(u16, u32)>> {
    let name = (queue.namespace.as_str(), queue.name.as_str());
    let row = held.row(queries::queues::NAMED, name).await?;
    row.map(|row| Ok((rows::number(&row, 0)?, rows::number(&row, 1)?))).transpose()
}

/// A page in two parts: the rest of a rank, then the ranks after it.
async fn line(
    held: &mut Held<'_>,
    (at, beyond): ([&str; 2], [&str; 2]),
    (shard, queue): (u16, u32),
    after: Place,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    held.snapshot().await?;
    let mut page = Page::new(limit);
    page.extend(held, at, |most| (shard, queue, after.rank, after.number, most).into()).await?;
    page.extend(held, beyond, |most| (shard, queue, after.rank, most).into()).await?;
    Ok(page.messages)
}

/// The next messages by wake time: the rest of an instant, then the later ones. The caller holds a snapshot.
pub(super) async fn due(
    held: &mut Held<'_>,
    shard: ShardId,
    after: TimerPlace,
    limit: usize,
) -> Result<Vec<Arc<Message>>> {
    let (shard, at) = (shard.0, after.at.as_millis());
    let mut page = Page::new(limit);
    page.extend(held, queries::messages::DUE_AT, |most| (shard, at, after.id, most).into()).await?;
    page.extend(held, queries::messages::DUE_AFTER, |most| (shard, at, most).into()).await?;
    Ok(page.messages)
}

struct Page {
    limit: usize,
    messages: Vec<Arc<Message>>,
}

impl Page {
    fn new(limit: usize) -> Page {
        Page { limit, messages: Vec::new() }
    }

    /// Adds the messages of one part that fit on the page.
    async fn extend(
        &mut self,
        held: &mut Held<'_>,
        [weigh, read]: [&str; 2],
        params: impl Fn(i64) -> Params,
    ) -> Result<()> {
        let room = self.limit.saturating_sub(self.messages.len());
        let mut weight = Weight::of(&self.messages).bytes();
        if room == 0 || weight >= PAGE_BYTES_MAX {
            return Ok(());
        }
        let mut most = 0;
        for row in held.rows(weigh, params(rows_max(room))).await? {
            most += 1;
            weight += rows::number::<usize>(&row, 0)?;
            if weight >= PAGE_BYTES_MAX {
                break;
            }
        }
        if most > 0 {
            let found = held.rows(read, params(most)).await?;
            self.messages.extend(found.iter().map(rows::message).collect::<Result<Vec<_>>>()?);
        }
        Ok(())
    }
}

/// Messages by id. Tries every rank, because an id does not contain it.
pub(super) async fn find(held: &mut Held<'_>, ids: &[MessageId]) -> Result<Vec<Arc<Message>>> {
    let mut messages = Vec::new();
    for ids in ids.chunks(KEYS_MAX / (usize::from(PRIORITY_MAX) + 1)) {
        let mut by_queue: BTreeMap<(ShardId, QueueNumber), Vec<i64>> = BTreeMap::new();
        ids.iter().for_each(|id| by_queue.entry((id.shard(), id.queue)).or_default().push(id.number));
        let mut sql = Vec::new();
        put(&mut sql, "SELECT queue, rank_no, number, head, body FROM messages FORCE INDEX (PRIMARY) WHERE ");
        for (index, ((shard, queue), numbers)) in by_queue.into_iter().enumerate() {
            put(&mut sql, if index == 0 { "(shard = " } else { " OR (shard = " });
            int(&mut sql, shard.0);
            put(&mut sql, " AND queue = ");
            int(&mut sql, queue.0);
            put(&mut sql, " AND rank_no IN (");
            list(&mut sql, 0..=PRIORITY_MAX, int);
            put(&mut sql, ") AND number IN (");
            list(&mut sql, numbers, int);
            put(&mut sql, "))");
        }
        for row in held.text(sql).await? {
            messages.push(rows::message(&row)?);
        }
    }
    Ok(messages)
}

async fn queue_rows(
    held: &mut Held<'_>,
    namespace: Option<&Namespace>,
    after: Option<&QueueKey>,
    limit: usize,
) -> Result<Vec<Row>> {
    let Some(QueueSpan { namespace, after, goes_beyond }) = QueueSpan::of(namespace, after) else {
        return Ok(Vec::new());
    };
    let rest = (namespace, after, rows_max(limit));
    let mut found = held.rows(queries::queues::LIST_OF_NAMESPACE, rest).await?;
    if goes_beyond && found.len() < limit {
        let beyond = (namespace, rows_max(limit - found.len()));
        found.extend(held.rows(queries::queues::LIST_BEYOND, beyond).await?);
    }
    Ok(found)
}
