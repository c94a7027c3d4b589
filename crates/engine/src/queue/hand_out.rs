//! Hands the messages of a queue to the jobs that listen to it.
//!
//! A message that is handed out is acknowledged in the same commit that writes the notice for its job. So it becomes one
//! run, whatever fails. Only a few notices of a queue are open at a time: what jobs cannot take yet stays in the queue.

use std::time::Duration;

use punctual_core::command::Refusal;
use punctual_core::job::Invalid;
use punctual_core::limits::EVENT_BYTES_MAX;
use punctual_core::queue::{Content, Delivered, Ending, IdText, NewMessage, QueueKey, QueueNumber};
use punctual_core::topic::{Handed, Happening, Topic, TopicKey, Wake, What};

use super::settings::Gate;
use crate::Shard;
use crate::event::Context;

/// Messages of one queue that were handed out and not confirmed by their listeners.
const HANDED_MAX: usize = 100;

impl Shard {
    /// Whether the messages of a queue start jobs.
    pub(super) fn has_listeners(&self, of: QueueNumber) -> bool {
        self.listened_topic(of).is_some()
    }

    /// The queue as a topic. `None` means that nothing listens to it.
    fn listened_topic(&self, of: QueueNumber) -> Option<TopicKey> {
        let queue = self.queues.get(of).filter(|_| self.topics.has_queues())?;
        let QueueKey { namespace, name } = queue.record.key.clone();
        let topic = TopicKey { namespace, topic: Topic::Queue(name) };
        (!self.topics.of(&topic).is_empty()).then_some(topic)
    }

    /// Hands out the messages of a queue, if the topic is one: now, or when its rate allows the next delivery.
    pub(crate) fn hand_out(&mut self, topic: &TopicKey, cx: &mut Context<'_>) {
        let Topic::Queue(name) = &topic.topic else { return };
        let key = QueueKey { namespace: topic.namespace.clone(), name: name.clone() };
        if let Some(number) = self.queues.find(&key) {
            self.hand_out_of(number, cx);
            self.expect_opening(number, cx);
        }
    }

    pub(super) fn hand_out_of(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        let Some(topic) = self.listened_topic(of) else { return };
        if self.holds.covers(&topic.namespace) {
            return;
        }
        let Some(queue) = self.queues.get_mut(of) else { return };
        if queue.gate(&self.rates, cx.now) != Gate::Open {
            return;
        }
        queue.taken_at = Some(cx.now);
        while self.end_notices.handed(&topic) < HANDED_MAX
            && let Some(Delivered { id, ttl, at_most_once, body, .. }) = self.deliver(of, 1, cx).pop()
        {
            // What no run can have as parameters stays with the messages that were taken.
            if body.len() > EVENT_BYTES_MAX {
                continue;
            }
            let Some(message) = self.queues.message(id.number) else { continue };
            let (retry, priority) = (message.retry, message.priority);
            let (delay, max_len, key) = (Duration::ZERO, None, None);
            let message = NewMessage { body, delay, retry, ttl, priority, max_len, key };
            let id_text = IdText::new(id, ttl, at_most_once).as_str().into();
            let what = What::Message(Box::new(Handed { id: id_text, message }));
            let happening = Happening { id: id.number, at: cx.now, depth: 0, what };
            // Each of several jobs gets its share.
            let listeners = self.topics.of(&topic);
            let share = usize::try_from(id.number).unwrap_or(0) % listeners.len().max(1);
            let Some(record) = listeners.get(share).cloned() else { return };
            let (listener, number) = (record.listener.clone(), record.number);
            let wake = Wake { topic: topic.clone(), listener, number, happening };
            self.notify(Content::Wake(Box::new(wake)), cx);
            cx.pool.counts_mut().messages.acked += 1;
            self.drop_message(id.number, Ending::Acked, cx.now);
        }
    }

    /// Puts a message that no job takes any more back into its queue. Its notice is done with that. Refused if there is no
    /// room for the queue: the notice stays, and the message with it.
    pub(crate) fn take_back_message(
        &mut self,
        topic: &TopicKey,
        notice: i64,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let Some(Content::Wake(wake)) = self.end_notices.get(notice).map(|notice| &notice.content) else {
            return Ok(());
        };
        let (What::Message(handed), Topic::Queue(name)) = (&wake.happening.what, &topic.topic) else {
            return Ok(());
        };
        let message = handed.message.clone();
        let key = QueueKey { namespace: topic.namespace.clone(), name: name.clone() };
        let Some(of) = self.make_queue(&key, cx) else {
            return Err(Invalid::new("queue", "there are too many queues; delete unused ones").into());
        };
        let message = self.new_message(of, message, None, cx);
        self.welcome(message, cx);
        drop(self.told(notice, cx));
        Ok(())
    }
}
