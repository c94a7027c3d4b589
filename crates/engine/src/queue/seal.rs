//! Writes the changes of queues into the batch, and removes from memory what need not stay there.

use std::sync::Arc;

use punctual_core::change::{Changes, Row, RowKey};
use punctual_core::queue::QueueNumber;

use super::{Mark, Stored};
use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::Context;
use crate::plan::TimerOwner;

/// Delivered messages kept in memory after they are written: a slow consumer will acknowledge them soon.
const SPOKEN_OF_MAX: usize = 1024;
/// Messages with larger bodies are not kept.
const SPOKEN_OF_BYTES_MAX: usize = 4 * 1024;

impl Shard {
    pub(crate) fn seal_messages(&mut self, changes: &mut Changes, cx: &mut Context<'_>) {
        if self.queues.unwritten.delivered_due {
            self.seal_delivered(cx);
        }
        let written = std::mem::take(&mut self.queues.unwritten.messages);
        for number in &written {
            self.seal_message(*number, changes);
        }
        self.seal_end_notices(changes, cx);
        for (queue, place) in std::mem::take(&mut self.queues.unwritten.gone) {
            changes.delete(RowKey::Message(queue, place));
        }
        for number in std::mem::take(&mut self.queues.unwritten.gone_queues) {
            changes.delete(RowKey::Queue(number));
        }
        let queues = std::mem::take(&mut self.queues.unwritten.queues);
        for number in &queues {
            let Some(queue) = self.queues.all.get_mut(number) else { continue };
            queue.dirty = false;
            let row = Row::Queue(queue.record.clone());
            if std::mem::replace(&mut queue.stored, true) {
                changes.update(row);
            } else {
                changes.insert(row);
            }
        }
        for number in written {
            self.message_is_far(number);
        }
        for number in queues {
            self.shrink_window(number);
        }
    }

    /// Marks deliveries as dirty, also those that are only half a second old, so that they share one batch.
    fn seal_delivered(&mut self, cx: &mut Context<'_>) {
        let unwritten = &mut self.queues.unwritten;
        unwritten.delivered_due = false;
        while let Some((at, number)) = unwritten.delivered.front().copied() {
            if at + LAZY_MAX / 2 > cx.elapsed {
                self.deadlines.insert(at + LAZY_MAX, Deadline::Delivered);
                return;
            }
            unwritten.delivered.pop_front();
            if let Some(live) = self.queues.held.get_mut(&number).filter(|live| live.mark == Mark::Lazy) {
                live.mark = Mark::Dirty;
                unwritten.messages.push(number);
            }
        }
    }

    fn seal_message(&mut self, number: i64, changes: &mut Changes) {
        let Some(live) = self.queues.held.get_mut(&number) else { return };
        let (of, now) = (live.message.id.queue, Stored::of(&live.message));
        live.mark = Mark::Clean;
        let row = Row::Message(Arc::clone(&live.message));
        let before = std::mem::replace(&mut live.row, now);
        if let Some(queue) = self.queues.all.get_mut(&of) {
            queue.record.queued += u64::from(now == Stored::Queued);
            queue.record.queued -= u64::from(before == Stored::Queued);
            queue.record.messages += u64::from(before == Stored::Nothing);
        }
        if before == Stored::Nothing {
            changes.insert(row);
        } else {
            changes.update(row);
        }
        if before != now {
            self.queues.touch(of);
        }
    }

    /// Removes a message from memory if nothing keeps it there.
    pub(crate) fn message_is_far(&mut self, number: i64) {
        let Some(live) = self.queues.held.get(&number) else { return };
        let (message, is_clean) = (&live.message, live.mark == Mark::Clean);
        let wake = message.wake_at();
        if self.plan.is_near(wake, TimerOwner::Message(number)) {
            return;
        }
        self.plan.disarm(Some(wake), TimerOwner::Message(number));
        let Some(queue) = self.queues.all.get(&message.id.queue) else { return };
        if !is_clean || (message.is_queued() && queue.window.keeps(message.position())) {
            return;
        }
        if !message.is_queued() && message.body.len() <= SPOKEN_OF_BYTES_MAX {
            self.queues.spoken_of.push_back(number);
            self.forget_spoken_of();
        } else {
            self.evict_message(number);
        }
    }

    fn forget_spoken_of(&mut self) {
        while self.queues.spoken_of.len() > SPOKEN_OF_MAX {
            let Some(number) = self.queues.spoken_of.pop_front() else { return };
            let Some(live) = self.queues.held.get(&number) else { continue };
            let is_idle = live.mark == Mark::Clean && !live.message.is_queued();
            if is_idle && !self.plan.is_near(live.message.wake_at(), TimerOwner::Message(number)) {
                self.evict_message(number);
            }
        }
    }

    fn evict_message(&mut self, number: i64) {
        let Some(live) = self.queues.held.remove(&number) else { return };
        self.queues.bytes -= live.message.body.len();
        self.plan.disarm(Some(live.message.wake_at()), TimerOwner::Message(number));
        if let Some(queue) = self.queues.all.get_mut(&live.message.id.queue) {
            queue.held -= 1;
            if live.message.is_queued() {
                queue.window.remove(live.message.position());
            }
        }
        self.pins.message(self.batch, number, Some(live.message));
    }

    /// Bounds the number of a queue's messages in memory.
    pub(super) fn shrink_window(&mut self, of: QueueNumber) {
        let Some(queue) = self.queues.all.get(&of) else { return };
        let reach = self.queues.reach(queue);
        let Some(queue) = self.queues.all.get_mut(&of) else { return };
        for place in queue.window.shrink(reach) {
            self.message_is_far(place.number);
        }
    }
}
