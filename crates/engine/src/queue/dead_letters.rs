//! Moves messages to the dead-letter queues of their queues.
//!
//! A dead-letter queue may belong to another shard. So a message that expires, or that was delivered too often, is deleted,
//! and in the same batch a notice is written that carries it ([`end_notices`](super::end_notices)). The shard of the
//! dead-letter queue remembers the number of the notice, and adds the message once.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::Holder;
use punctual_core::command::{Answer, Key};
use punctual_core::job::Invalid;
use punctual_core::limits::DEAD_MESSAGES_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{
    Acted, Content, DeadMessage, Ending, Message, MessageStatus, QueueKey, QueueSettings, Said,
};

use super::Mark;
use crate::Shard;
use crate::event::{Context, Ticket};

/// How long an expired message stays in its queue when too many others are on their way.
const LATER: Duration = Duration::from_secs(10);

/// The key that records that the message of a notice was added. No other key has this prefix.
pub(super) fn dead_key(notice: i64) -> Arc<str> {
    Arc::from(format!("dead-letter/{notice}"))
}

/// What becomes of a message that would be queued again.
pub(super) enum Fate {
    Queued,
    /// It has been delivered too often, and is gone.
    Moved,
    /// It has been delivered too often, and too many others are on their way.
    MovedLater,
}

impl Shard {
    fn settings_of(&self, message: &Message) -> Option<&QueueSettings> {
        self.queues.get(message.id.queue)?.record.settings.as_deref()
    }

    /// Ends a message whose time to live is over.
    pub(super) fn expire_message(&mut self, number: i64, cx: &mut Context<'_>) {
        let Some(message) = self.queues.message(number).cloned() else { return };
        // It may have been handled: a consumer got it, and no other may get it.
        let may_be_moved = !(message.retry.is_zero() && message.is_unacked());
        let to = self.settings_of(&message).and_then(|settings| settings.dead_letter.clone());
        if to.is_some() && may_be_moved && self.end_notices.dead() >= DEAD_MESSAGES_MAX {
            let later = cx.now + LATER;
            return self.change_message(number, Mark::Dirty, cx.elapsed, |message| {
                (message.status, message.expires_at) = (MessageStatus::Delayed { until: later }, later);
            });
        }
        cx.pool.counts_mut().messages.expired += 1;
        if let Some(queue) = self.queues.get_mut(message.id.queue) {
            queue.expired += 1;
        }
        if may_be_moved {
            self.send_dead(&message, cx);
        }
        self.drop_message(number, Ending::Expired, cx.now);
    }

    /// Moves a message to the dead-letter queue if the delivery that ends now is the last that it may have.
    pub(super) fn fate_of(&mut self, number: i64, cx: &mut Context<'_>) -> Fate {
        let Some(message) = self.queues.message(number) else { return Fate::Queued };
        let most = self.settings_of(message).and_then(|settings| settings.max_deliveries);
        if most.is_none_or(|most| message.failed_deliveries() + 1 < most) {
            return Fate::Queued;
        }
        if self.end_notices.dead() >= DEAD_MESSAGES_MAX {
            return Fate::MovedLater;
        }
        let message = Arc::clone(message);
        self.send_dead(&message, cx);
        if is_planted(Fault::DeadMessageStays) {
            return Fate::Queued;
        }
        self.drop_message(number, Ending::GivenUp, cx.now);
        Fate::Moved
    }

    /// Writes the notice that carries a message to the dead-letter queue, if there is one.
    fn send_dead(&mut self, message: &Message, cx: &mut Context<'_>) {
        let Some(queue) = self.queues.get_mut(message.id.queue) else { return };
        let Some(name) = queue.record.settings.as_ref().and_then(|settings| settings.dead_letter.clone())
        else {
            return;
        };
        queue.dead += 1;
        cx.pool.counts_mut().messages.dead += 1;
        let to = QueueKey { namespace: queue.record.key.namespace.clone(), name };
        if !is_planted(Fault::DeadMessageIsLost) {
            self.notify(Content::Dead(Box::new(DeadMessage::of(to, message))), cx);
        }
    }

    /// Adds the message of a notice to this dead-letter queue, also if its input is paused. Refused if there is no room for
    /// the queue: the notice stays, and the message with it.
    pub(super) fn add_dead(&mut self, ticket: Ticket, notice: i64, dead: DeadMessage, cx: &mut Context<'_>) {
        let text = dead_key(notice);
        let is_added = self.unique_row(&text).is_some_and(|row| row.expires_at > cx.now)
            && !is_planted(Fault::DeadMessageIsAddedAgain);
        if !is_added {
            let Some(of) = self.make_queue(&dead.queue, cx) else {
                let invalid = Invalid::new("queue", "there are too many queues; delete unused ones");
                return cx.answer(ticket, Err(invalid.into()));
            };
            self.queues.note_use(of, cx.now);
            let key = Key { text, kept: dead.message.ttl };
            self.give_key(key, Holder::Nobody(self.id), cx.now);
            let message = self.new_message(of, dead.message, None, cx);
            self.welcome(message, cx);
        }
        let acted = Acted { count: u64::from(!is_added) };
        cx.answer(ticket, Ok(Answer::Queue(Said::Acted(acted))));
    }
}
