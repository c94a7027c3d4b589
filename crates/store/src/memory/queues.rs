//! Reads of queues and their messages.

use std::ops::Bound;
use std::sync::Arc;

use punctual_core::change::{Row, RowKey};
use punctual_core::ids::ShardId;
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{Message, MessageId, MessagePosition, QueueKey, QueueNumber, QueueRecord};

use super::tables::Tables;
use crate::End;
use crate::page_bytes::PageBytes;

impl Tables {
    pub(super) fn queues_of(&self, shard: ShardId) -> Vec<QueueRecord> {
        let (first, last) = (RowKey::Queue(QueueNumber(0)), RowKey::Queue(QueueNumber(u32::MAX)));
        let places = self.rows.range((first, ShardId(0))..=(last, ShardId(u16::MAX)));
        let own = places.filter(|((_, of), _)| *of == shard).map(|(_, row)| row);
        own.filter_map(record).cloned().collect()
    }

    pub(super) fn all_queues(&self) -> impl Iterator<Item = &QueueRecord> {
        let (first, last) = (RowKey::Queue(QueueNumber(0)), RowKey::Queue(QueueNumber(u32::MAX)));
        self.between(first, last).filter_map(record)
    }

    pub(super) fn list_queues(
        &self,
        namespace: Option<&Namespace>,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Vec<QueueRecord> {
        let beyond = self.queues.iter().filter(|(key, ..)| after.is_none_or(|after| key > after));
        let wanted = beyond.filter(|(key, ..)| namespace.is_none_or(|namespace| key.namespace == *namespace));
        let rows = wanted.filter_map(|(_, shard, number)| self.row(*shard, &RowKey::Queue(*number)));
        rows.filter_map(record).take(limit).cloned().collect()
    }

    /// Tries every priority, because the id does not contain it.
    pub(super) fn message(&self, id: MessageId) -> Option<Arc<Message>> {
        let places = (0..=PRIORITY_MAX).map(|rank| MessagePosition { rank, number: id.number });
        let mut rows = places.filter_map(|place| self.row(id.shard(), &RowKey::Message(id.queue, place)));
        match rows.next() {
            Some(Row::Message(message)) => Some(Arc::clone(message)),
            _ => None,
        }
    }

    pub(super) fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        page(self.messages_after(shard, queue, after).filter(|message| message.is_queued()), limit)
    }

    pub(super) fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        match self.named(queue) {
            Some((shard, number)) => {
                page(self.messages_after(shard, number, after.unwrap_or(MessagePosition::START)), limit)
            }
            None => Vec::new(),
        }
    }

    pub(super) fn queued_from(&self, queue: &QueueKey, from: End, limit: usize) -> Vec<Arc<Message>> {
        let Some((shard, number)) = self.named(queue) else { return Vec::new() };
        let queued =
            self.messages_after(shard, number, MessagePosition::START).filter(|message| message.is_queued());
        match from {
            End::First => page(queued, limit),
            End::Last => page(queued.rev(), limit),
        }
    }

    fn named(&self, queue: &QueueKey) -> Option<(ShardId, QueueNumber)> {
        let first = (queue.clone(), ShardId(0), QueueNumber(0));
        let (_, shard, number) = self.queues.range(first..).next().filter(|(key, ..)| key == queue)?;
        Some((*shard, *number))
    }

    /// The messages of a queue after a place, queued or not.
    fn messages_after(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
    ) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        let last = MessagePosition { rank: u8::MAX, number: i64::MAX };
        let beyond = Bound::Excluded((RowKey::Message(queue, after), ShardId(u16::MAX)));
        let end = Bound::Included((RowKey::Message(queue, last), ShardId(u16::MAX)));
        let own = self.rows.range((beyond, end)).filter(move |((_, of), _)| *of == shard);
        own.filter_map(|(_, row)| match row {
            Row::Message(message) => Some(message),
            _ => None,
        })
    }
}

fn page<'m>(messages: impl Iterator<Item = &'m Arc<Message>>, limit: usize) -> Vec<Arc<Message>> {
    let (mut page, mut bytes) = (Vec::new(), PageBytes::default());
    for message in messages.take(limit) {
        bytes.add(message);
        page.push(Arc::clone(message));
        if bytes.is_full() {
            break;
        }
    }
    page
}

fn record(row: &Row) -> Option<&QueueRecord> {
    match row {
        Row::Queue(queue) => Some(queue),
        _ => None,
    }
}
