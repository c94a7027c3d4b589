//! Adds messages: each is queued at once, or after its delay.

use std::sync::Arc;

use punctual_core::change::Holder;
use punctual_core::command::Key;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{
    Add, Message, MessageId, MessageStatus, NewMessage, Notice, QueueKey, QueueNumber, QueueRefusal, Said,
    Sender,
};
use punctual_core::{Timestamp, limits};

use crate::Shard;
use crate::event::Context;

/// The row key of a message's unique key. The name of a queue can contain anything, so its length comes before it.
pub(super) fn unique_key(queue: &QueueKey, key: &str) -> Arc<str> {
    let (namespace, name) = (&queue.namespace, queue.name.as_str());
    Arc::from(format!("queue/{namespace}:{}:{name}{key}", name.len()))
}

/// The longest of these keys fits into every store.
const _: () = {
    let signs = "queue/:000:".len();
    let parts = limits::NAME_BYTES_MAX + limits::QUEUE_NAME_BYTES_MAX + limits::KEY_BYTES_MAX;
    assert!(signs + parts <= limits::UNIQUE_BYTES_MAX);
};

impl Shard {
    pub(super) fn add_messages(&mut self, add: Add, cx: &mut Context<'_>) -> Said {
        let Some(number) = self.make_queue(&add.queue, cx) else {
            let refused = add.messages.iter().map(|_| Err(QueueRefusal::TooManyQueues));
            return Said::Added(refused.collect());
        };
        self.queues.note_use(number, cx.now);
        let added = add.messages.into_iter().map(|new| self.add_message(&add.queue, number, new, None, cx));
        Said::Added(added.collect())
    }

    pub(super) fn add_message(
        &mut self,
        key: &QueueKey,
        of: QueueNumber,
        new: NewMessage,
        sender: Option<Sender>,
        cx: &mut Context<'_>,
    ) -> Result<Notice, QueueRefusal> {
        let claim = new.key.as_ref().map(|text| unique_key(key, text));
        if let Some(notice) = claim.as_ref().and_then(|claim| self.bearing(of, claim, cx))
            && !is_planted(Fault::AddIgnoresKey)
        {
            return Ok(notice);
        }
        if let Some(queue) = self.queues.get(of) {
            if let Some(most) = new.max_len.filter(|most| queue.len >= *most) {
                return Err(QueueRefusal::TooLong(most));
            }
            if queue.record.pause.input {
                return Err(QueueRefusal::Paused);
            }
        }
        let kept = new.ttl;
        let message = self.new_message(of, new, sender, cx);
        let id = message.id;
        let notice = notice(&message, true);
        if let Some(text) = claim {
            self.give_key(Key { text, kept }, Holder::Message(id.number), cx.now);
        }
        self.welcome(message, cx);
        Ok(notice)
    }

    /// A message as it is added now.
    pub(super) fn new_message(
        &mut self,
        of: QueueNumber,
        new: NewMessage,
        sender: Option<Sender>,
        cx: &Context<'_>,
    ) -> Message {
        let id = MessageId { queue: of, number: self.ids.next(cx.now) };
        let settings = self.queues.get(of).and_then(|queue| queue.record.settings.as_ref());
        let hold = settings.and_then(|settings| settings.hold).unwrap_or_default();
        let status = match new.delay.max(hold) {
            delay if delay.is_zero() || is_planted(Fault::AddIgnoresDelay) => MessageStatus::Queued,
            delay => MessageStatus::Delayed { until: cx.now + delay },
        };
        Message {
            id,
            priority: new.priority.min(limits::PRIORITY_MAX),
            body: new.body,
            created_at: cx.now,
            expires_at: cx.now + new.ttl,
            delay: new.delay,
            retry: new.retry,
            status,
            nacks: 0,
            redeliveries: 0,
            key: new.key,
            sender,
        }
    }

    /// Puts a new message into its queue and serves waiting consumers.
    pub(super) fn welcome(&mut self, message: Message, cx: &mut Context<'_>) {
        let (of, number, wake) = (message.id.queue, message.id.number, message.wake_at());
        cx.pool.counts_mut().messages.added += 1;
        let is_awaited = self.queues.add(Arc::new(message));
        self.arm_if_near(number, wake);
        if (is_awaited || self.has_listeners(of)) && !is_planted(Fault::AddForgetsWaiters) {
            self.serve(of, cx);
        }
    }

    /// The message that holds a key, unless it has expired.
    pub(super) fn bearing(
        &mut self,
        of: QueueNumber,
        claim: &Arc<str>,
        cx: &mut Context<'_>,
    ) -> Option<Notice> {
        let row = self.unique_row(claim).filter(|row| row.expires_at > cx.now)?;
        let Holder::Message(number) = row.holder else { return None };
        let id = MessageId { queue: of, number };
        if !self.find_message(id, cx) {
            return None;
        }
        let found = self.queues.message(id.number).map(|message| notice(message, false));
        self.message_is_far(id.number);
        found
    }

    /// Frees the key of a deleted message. The key of an expired message expires by itself.
    pub(super) fn free_key(&mut self, message: &Message, now: Timestamp) {
        let Some(text) = message.key.as_ref().filter(|_| message.expires_at > now) else { return };
        let Some(queue) = self.queues.get(message.id.queue) else { return };
        let text = unique_key(&queue.record.key, text);
        match self.dirty.uniques.get_mut(&text) {
            Some((row, _)) => {
                if row.as_ref().is_some_and(|row| row.holder == Holder::Message(message.id.number)) {
                    *row = None;
                }
            }
            None => {
                self.dirty.uniques.insert(text, (None, crate::memory::Stored::Yes));
            }
        }
    }
}

fn notice(message: &Message, is_new: bool) -> Notice {
    Notice { id: message.id, ttl: message.ttl(), at_most_once: message.retry.is_zero(), is_new }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_keys_of_two_queues_never_collide() {
        let queue = |namespace: &str, name: &str| QueueKey {
            namespace: namespace.parse().unwrap(),
            name: name.parse().unwrap(),
        };
        assert_ne!(unique_key(&queue("a/b", "c"), "k"), unique_key(&queue("a", "b/c"), "k"));
        assert_ne!(unique_key(&queue("a", "b"), "c"), unique_key(&queue("a", "bc"), ""));
    }
}
