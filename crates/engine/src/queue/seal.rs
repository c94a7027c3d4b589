//! Writes the changes of queues into the batch, and removes from memory what need not stay there.

use punctual_core::change::Changes;
use punctual_core::queue::QueueNumber;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::plan::TimerOwner;

impl Shard {
    pub(crate) fn seal_messages(&mut self, changes: &mut Changes, cx: &mut Context<'_>) {
        if let Some(next) = self.queues.seal_deliveries(cx.elapsed) {
            self.deadlines.insert(next, Deadline::Delivered);
        }
        let messages = self.queues.seal_messages(changes);
        self.seal_end_notices(changes, cx);
        let queues = self.queues.seal_queues(changes);
        for number in messages {
            self.message_is_far(number);
        }
        for number in queues {
            self.shrink_window(number);
        }
    }

    /// Removes a message from memory if nothing keeps it there.
    pub(crate) fn message_is_far(&mut self, number: i64) {
        let Some(wake) = self.queues.message(number).map(|message| message.wake_at()) else { return };
        if self.plan.is_near(wake, TimerOwner::Message(number)) {
            return;
        }
        self.plan.disarm(Some(wake), TimerOwner::Message(number));
        if self.queues.must_stay(number) {
            return;
        }
        if self.queues.keep_unacked(number) {
            self.evict_unacked();
        } else {
            self.evict_message(number);
        }
    }

    fn evict_unacked(&mut self) {
        while let Some(number) = self.queues.pop_unacked() {
            let Some(message) = self.queues.message(number).filter(|_| self.queues.is_idle(number)) else {
                continue;
            };
            if !self.plan.is_near(message.wake_at(), TimerOwner::Message(number)) {
                self.evict_message(number);
            }
        }
    }

    fn evict_message(&mut self, number: i64) {
        let Some(message) = self.queues.evict(number) else { return };
        self.plan.disarm(Some(message.wake_at()), TimerOwner::Message(number));
        self.pins.message(self.batch, number, Some(message));
    }

    /// Bounds the number of a queue's messages in memory.
    pub(super) fn shrink_window(&mut self, of: QueueNumber) {
        for place in self.queues.shrink(of) {
            self.message_is_far(place.number);
        }
    }
}
