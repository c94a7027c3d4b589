//! End notices: notices for attempts that tell how their delivered message, or the run that they started, ended.
//!
//! A notice is written in the batch that deletes its message or ends the run, sent when that batch is committed, and deleted when the
//! sender, which may be on another node, has confirmed it. All end notices are in memory: each belongs to a live run, or
//! carries one of few messages, so they are few. After a load, the first page of timers brings them, and they are sent again.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Holder, Row};
use punctual_core::command::Key;
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::queue::{
    Acted, Content, Deliver, END_NOTICES, EndNotice, Ending, Message, MessageId, MessagePosition, News,
    Notice, QueueKey, QueueRefusal, Said, Sender, Whereabouts, rank,
};

use crate::Shard;
use crate::event::Context;

/// How long after a message's TTL it is remembered that the message was added for its sender: longer than any node
/// retries the delivery.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What became of the message of an attempt.
enum Delivery {
    /// It was not added.
    Never,
    Alive(Notice),
    /// It has ended, or was withdrawn before it was added.
    Ended,
}

/// The key that records that a sender's message was added. No key of a queue has this prefix.
pub(crate) fn delivery_key(sender: Sender) -> Arc<str> {
    Arc::from(format!("delivery/{}/{}", sender.run, sender.token))
}

impl Shard {
    /// Adds the message of an attempt, unless it was added before.
    pub(super) fn take_delivery(&mut self, deliver: Deliver, cx: &mut Context<'_>) -> Said {
        let Deliver { queue, sender, message } = deliver;
        let text = delivery_key(sender);
        match self.delivery(&queue, sender, cx) {
            Delivery::Never => {}
            Delivery::Alive(notice) => return Said::Added(vec![Ok(notice)]),
            Delivery::Ended => return Said::Added(Vec::new()),
        }
        let Some(number) = self.make_queue(&queue, cx) else {
            return Said::Added(vec![Err(QueueRefusal::TooManyQueues)]);
        };
        self.queues.note_use(number, cx.now);
        let kept = message.ttl + REMEMBERED;
        let added = self.add_message(&queue, number, message, Some(sender), cx);
        if let Ok(notice) = &added {
            self.give_key(Key { text, kept }, Holder::Message(notice.id.number), cx.now);
        }
        Said::Added(vec![added])
    }

    fn delivery(&mut self, queue: &QueueKey, sender: Sender, cx: &mut Context<'_>) -> Delivery {
        let key = delivery_key(sender);
        let alive = self.queues.find(queue).and_then(|number| self.bearing(number, &key, cx));
        let is_remembered = self.unique_row(&key).is_some_and(|row| row.expires_at > cx.now);
        let is_told = self.end_notices.has_of(sender);
        match alive {
            _ if !is_remembered && !is_told => Delivery::Never,
            Some(notice) => Delivery::Alive(notice),
            None => Delivery::Ended,
        }
    }

    /// Deletes the message of an attempt. If it was not added yet, it is marked so that it never will be.
    pub(super) fn withdraw_message(
        &mut self,
        queue: &QueueKey,
        sender: Sender,
        cx: &mut Context<'_>,
    ) -> Said {
        let count = match self.delivery(queue, sender, cx) {
            Delivery::Alive(notice) => {
                self.withdraw_one(notice.id, cx);
                1
            }
            // The message has ended, and its notice was or will be sent; or it was withdrawn before.
            Delivery::Ended => {
                let row = self.unique_row(&delivery_key(sender));
                u64::from(row.is_none_or(|row| row.holder != Holder::Nobody(self.id)))
            }
            Delivery::Never => {
                let key = Key { text: delivery_key(sender), kept: REMEMBERED };
                self.give_key(key, Holder::Nobody(self.id), cx.now);
                0
            }
        };
        Said::Acted(Acted { count })
    }

    fn withdraw_one(&mut self, id: MessageId, cx: &mut Context<'_>) {
        if self.find_message(id, cx) {
            self.drop_message(id.number, Ending::Withdrawn, cx.now);
        }
    }

    /// Writes the notice to the sender of a message that has ended, if it has one.
    pub(super) fn post(&mut self, message: &Message, ending: Ending, now: Timestamp) {
        let Some(sender) = message.sender else { return };
        let whereabouts = Whereabouts::of(message.id, message.ttl(), message.retry.is_zero());
        let (number, news) = (self.ids.next(now), News::Ended { whereabouts, ending });
        self.end_notices.add(EndNotice { number, content: Content::Attempt { sender, news } });
    }

    /// Takes a stored notice and sends it, unless memory or a pin has it.
    pub(super) fn take_end_notice(&mut self, notice: EndNotice, cx: &mut Context<'_>) {
        let number = notice.number;
        if !self.end_notices.has(number) && !self.pins.messages.contains_key(&number) {
            cx.cross_shard(CrossShardRequest::Tell(notice.clone()));
            self.end_notices.add_stored(notice);
        }
    }

    /// Writes new end notices; they are sent after the commit.
    pub(super) fn seal_end_notices(&mut self, changes: &mut Changes, cx: &mut Context<'_>) {
        for notice in self.end_notices.take_unwritten() {
            changes.insert(Row::Message(Arc::new(notice.row(cx.now))));
            cx.cross_shard(CrossShardRequest::Tell(notice));
        }
    }

    /// A sender has confirmed its notice, which is deleted.
    pub(super) fn told(&mut self, number: i64, cx: &mut Context<'_>) -> Said {
        let Some((notice, is_stored)) = self.end_notices.remove(number) else {
            return Said::Acted(Acted::default());
        };
        if is_stored {
            let place = MessagePosition { rank: rank(0), number };
            self.queues.delete_row(END_NOTICES, place);
            self.pins.message(self.next_batch(), number, None);
        }
        if let Content::Wake(wake) = &notice.content {
            self.hand_out(&wake.topic, cx);
        }
        Said::Acted(Acted { count: 1 })
    }
}
