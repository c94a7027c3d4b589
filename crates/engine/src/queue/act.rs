//! Actions on messages by their ids: acknowledge, put back, take out of the queue.

use punctual_core::Timestamp;
use punctual_core::name::Namespace;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Act, Acted, Ending, Message, MessageId, MessageStatus, QueueRefusal, Said, Verb};

use super::Mark;
use super::dead_letters::Fate;
use super::queues::Queue;
use crate::Shard;
use crate::event::Context;

impl Shard {
    pub(super) fn act(&mut self, act: &Act, cx: &mut Context<'_>) -> Said {
        let mut count = 0;
        for id in &act.ids {
            if self.is_of(&act.namespace, *id) && self.find_message(*id, cx) {
                count += u64::from(self.act_on(*id, act.verb, cx));
                self.message_is_far(id.number);
            }
        }
        Said::Acted(Acted { count })
    }

    pub(super) fn is_of(&self, namespace: &Namespace, id: MessageId) -> bool {
        self.queues.get(id.queue).is_some_and(|queue| queue.record.key.namespace == *namespace)
    }

    fn act_on(&mut self, id: MessageId, verb: Verb, cx: &mut Context<'_>) -> bool {
        self.queues.note_use(id.queue, cx.now);
        let Some(message) = self.queues.message(id.number) else { return false };
        let is_queued = message.is_queued();
        let out = MessageStatus::Active { until: out_until(message.retry, cx.now) };
        match verb {
            Verb::Ack if is_planted(Fault::AckKeepsMessage) => true,
            Verb::Ack | Verb::Delete => {
                cx.pool.counts_mut().messages.acked += u64::from(verb == Verb::Ack);
                let ending = if verb == Verb::Ack { Ending::Acked } else { Ending::Deleted };
                self.drop_message(id.number, ending, cx.now);
                true
            }
            // The run that delivered the message decides whether to retry it.
            Verb::Nack { .. } if message.sender.is_some() && !is_queued => {
                self.drop_message(id.number, Ending::Refused, cx.now);
                true
            }
            Verb::Dequeue => {
                let is_queued = is_queued && !self.queues.get(id.queue).is_some_and(Queue::is_full);
                if is_queued {
                    self.change_message(id.number, Mark::Dirty, cx.elapsed, |message| message.status = out);
                }
                is_queued
            }
            Verb::Return => {
                if !is_queued {
                    self.requeue(id, Mark::Dirty, |_| {}, cx);
                }
                !is_queued
            }
            // A message with at-most-once delivery is never put back.
            Verb::Nack { .. } | Verb::Enqueue
                if is_queued || message.status == (MessageStatus::Active { until: None }) =>
            {
                false
            }
            Verb::Nack { delay } => {
                let delay = Some(delay).filter(|_| !is_planted(Fault::NackIgnoresDelay));
                self.put_back(id, PutBack::Nack, delay, cx)
            }
            Verb::Enqueue => self.put_back(id, PutBack::Again, None, cx),
        }
    }

    /// Queues a message again, at once or after a delay. If the queue's input is paused, the message waits one more
    /// retry interval.
    pub(super) fn put_back(
        &mut self,
        id: MessageId,
        why: PutBack,
        delay: Option<std::time::Duration>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(message) = self.queues.message(id.number) else { return false };
        let (retry, is_delayed) = (message.retry, matches!(message.status, MessageStatus::Delayed { .. }));
        // Counted only for a message that was delivered to a consumer.
        let is_uncounted = is_delayed || retry.is_zero();
        let is_closed = self.queues.get(id.queue).is_some_and(|queue| queue.record.pause.input);
        if is_closed && !retry.is_zero() {
            let until = cx.now + retry;
            let status = if is_delayed {
                MessageStatus::Delayed { until }
            } else {
                MessageStatus::Active { until: Some(until) }
            };
            self.change_message(id.number, Mark::Dirty, cx.elapsed, |message| message.status = status);
            return false;
        }
        let fate = if is_uncounted { Fate::Queued } else { self.fate_of(id.number, cx) };
        match fate {
            Fate::Queued => {}
            Fate::Moved => return true,
            Fate::MovedLater => {
                let status = MessageStatus::Active { until: Some(cx.now + retry) };
                self.change_message(id.number, Mark::Dirty, cx.elapsed, |message| message.status = status);
                return false;
            }
        }
        let count = |message: &mut Message| match why {
            _ if is_uncounted => {}
            PutBack::Nack => message.nacks = message.nacks.saturating_add(1),
            PutBack::Again => message.redeliveries = message.redeliveries.saturating_add(1),
        };
        match delay.filter(|delay| !delay.is_zero()) {
            Some(delay) => self.change_message(id.number, Mark::Dirty, cx.elapsed, |message| {
                count(message);
                message.status = MessageStatus::Delayed { until: cx.now + delay };
            }),
            None => self.requeue(id, Mark::Dirty, count, cx),
        }
        true
    }

    fn requeue(&mut self, id: MessageId, mark: Mark, count: impl FnOnce(&mut Message), cx: &mut Context<'_>) {
        self.change_message(id.number, mark, cx.elapsed, |message| {
            count(message);
            message.status = MessageStatus::Queued;
        });
        if self.queues.get(id.queue).is_some_and(|queue| !queue.takers.is_empty()) {
            self.serve(id.queue, cx);
        }
    }

    /// A consumer asks for more time.
    pub(super) fn working(&mut self, namespace: &Namespace, id: MessageId, cx: &mut Context<'_>) -> Said {
        if !self.is_of(namespace, id) || !self.find_message(id, cx) {
            return Said::Refused(QueueRefusal::NoSuchMessage);
        }
        let Some(message) = self.queues.message(id.number) else {
            return Said::Refused(QueueRefusal::NoSuchMessage);
        };
        let (retry, is_unacked) = (message.retry, message.is_unacked());
        let said = if !is_unacked && self.queues.get(id.queue).is_some_and(Queue::is_full) {
            Said::Refused(QueueRefusal::Full)
        } else if cx.now.since(message.created_at) > message.ttl() / 2 {
            Said::Refused(QueueRefusal::TooLate)
        } else {
            let until = out_until(retry, cx.now);
            self.change_message(id.number, Mark::Dirty, cx.elapsed, |message| {
                message.status = MessageStatus::Active { until };
            });
            Said::Postponed(retry)
        };
        self.message_is_far(id.number);
        said
    }
}

/// Why a message is queued again: which counter it raises.
#[derive(Debug, Clone, Copy)]
pub(super) enum PutBack {
    Nack,
    Again,
}

/// Until when a message stays out of the queue. `None` means forever.
fn out_until(retry: std::time::Duration, now: Timestamp) -> Option<Timestamp> {
    (!retry.is_zero()).then(|| now + retry)
}
