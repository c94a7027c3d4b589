//! Timers of messages: a delay is over, a consumer took too long, a message expires. Also removes unused queues.

use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Acted, QueueKey, Said};

use super::act::PutBack;
use super::queues::{Looked, Queue};
use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::Context;

impl Shard {
    /// The timer of a message in memory is due. It has already been removed from the plan.
    pub(crate) fn message_is_due(&mut self, number: i64, cx: &mut Context<'_>) {
        let Some(message) = self.queues.message(number) else { return };
        let (id, wake) = (message.id, message.wake_at());
        if message.expires_at <= cx.now {
            self.expire_message(number, cx);
            return self.serve(id.queue, cx);
        }
        if is_planted(Fault::RetryIsForgotten) {
            return;
        }
        match message.status.back_at() {
            Some(until) if until <= cx.now => {
                self.put_back(id, PutBack::Again, None, cx);
            }
            // It was armed for an earlier time than its current one.
            _ => self.arm_if_near(number, wake),
        }
    }

    /// Checks whether the oldest unwritten delivery must be written now.
    pub(crate) fn delivered_is_due(&mut self, cx: &mut Context<'_>) {
        let Some(at) = self.queues.oldest_delivery() else { return };
        if at + LAZY_MAX <= cx.elapsed {
            self.queues.write_deliveries();
        } else {
            self.deadlines.insert(at + LAZY_MAX, Deadline::Delivered);
        }
    }

    /// Writes every delivery, and every start and report of an attempt, with the next batch, because this shard's memory
    /// ends or its rows are read.
    pub fn hurry(&mut self) {
        self.queues.write_all_deliveries();
        self.lazy_is_due();
    }

    /// Removes unused empty queues, and keeps fewer messages in memory of those without consumers.
    pub(crate) fn let_unused_go(&mut self, cx: &mut Context<'_>) {
        let Looked { unused, cold, look_again } = self.queues.look(cx.now);
        unused.into_iter().for_each(|number| self.queues.remove_queue(number));
        cold.into_iter().for_each(|number| self.shrink_window(number));
        if look_again {
            self.look_for_unused(cx);
        }
    }

    pub(super) fn forget_queue(&mut self, key: &QueueKey) -> Said {
        let number = self.queues.find(key);
        let gone = number.filter(|number| self.queues.get(*number).is_some_and(Queue::is_empty));
        gone.into_iter().for_each(|number| self.queues.remove_queue(number));
        Said::Acted(Acted { count: u64::from(gone.is_some()) })
    }
}
