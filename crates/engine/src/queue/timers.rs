//! Timers of messages: a delay is over, a consumer took too long, a message expires. Also removes unused queues.

use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Acted, Ending, QueueKey, QueueNumber, Said};

use super::act::PutBack;
use super::{LOOK_EVERY, Mark, Queue, UNUSED_MAX};
use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::Context;
use crate::plan::TimerOwner;

impl Shard {
    /// The timer of a message in memory is due. It has already been removed from the plan.
    pub(crate) fn message_is_due(&mut self, number: i64, cx: &mut Context<'_>) {
        let Some(live) = self.queues.held.get(&number) else { return };
        let (id, wake) = (live.message.id, live.message.wake_at());
        if live.message.expires_at <= cx.now {
            self.drop_message(number, Ending::Expired, cx.now);
            return self.serve(id.queue, cx);
        }
        if is_planted(Fault::RetryIsForgotten) {
            return;
        }
        match live.message.status.back_at() {
            Some(until) if until <= cx.now => {
                self.put_back(id, PutBack::Again, None, cx);
            }
            // It was armed for an earlier time than its current one.
            _ if self.plan.is_near(wake, TimerOwner::Message(number)) => {
                self.plan.arm(Some(wake), TimerOwner::Message(number));
            }
            _ => {}
        }
    }

    /// Checks whether the oldest unwritten delivery must be written now.
    pub(crate) fn delivered_is_due(&mut self, cx: &mut Context<'_>) {
        self.pass_over_written();
        let Some((at, _)) = self.queues.unwritten.delivered.front() else { return };
        if *at + LAZY_MAX <= cx.elapsed {
            self.queues.unwritten.delivered_due = true;
        } else {
            self.deadlines.insert(*at + LAZY_MAX, Deadline::Delivered);
        }
    }

    /// Writes every delivery with the next batch, because this shard's memory ends or its rows are read.
    pub fn hurry(&mut self) {
        self.pass_over_written();
        let unwritten = &mut self.queues.unwritten;
        unwritten.delivered_due = !unwritten.delivered.is_empty();
        for (at, _) in &mut unwritten.delivered {
            // Makes them old enough for any seal.
            *at = at.before(LAZY_MAX);
        }
    }

    /// Skips deliveries that are already written or whose message is gone: most were acknowledged.
    fn pass_over_written(&mut self) {
        let queues = &mut self.queues;
        while let Some((_, number)) = queues.unwritten.delivered.front() {
            if queues.held.get(number).is_some_and(|live| live.mark == Mark::Lazy) {
                return;
            }
            queues.unwritten.delivered.pop_front();
        }
    }

    /// Removes unused empty queues, and keeps fewer messages in memory of those without consumers.
    pub(crate) fn let_unused_go(&mut self, cx: &mut Context<'_>) {
        self.queues.looks = false;
        let (mut gone, mut cold): (Vec<QueueNumber>, Vec<QueueNumber>) = (Vec::new(), Vec::new());
        let mut look_again = false;
        for (number, queue) in &mut self.queues.all {
            if queue.is_unused() && cx.now.since(queue.used_at) >= UNUSED_MAX {
                gone.push(*number);
                continue;
            }
            if queue.takers.is_empty() && queue.taken_at.is_some_and(|at| cx.now.since(at) >= LOOK_EVERY) {
                queue.taken_at = None;
                cold.push(*number);
            }
            look_again |= queue.is_unused() || queue.taken_at.is_some();
        }
        gone.sort_unstable();
        cold.sort_unstable();
        for number in gone {
            self.let_queue_go(number);
        }
        for number in cold {
            self.shrink_window(number);
        }
        if look_again {
            self.look_for_unused(cx);
        }
    }

    pub(super) fn forget_queue(&mut self, key: &QueueKey) -> Said {
        let number = self.find_queue(key);
        let gone = number.filter(|number| self.queues.all.get(number).is_some_and(Queue::is_empty));
        gone.into_iter().for_each(|number| self.let_queue_go(number));
        Said::Acted(Acted { count: u64::from(gone.is_some()) })
    }

    fn let_queue_go(&mut self, number: QueueNumber) {
        let Some(queue) = self.queues.all.remove(&number) else { return };
        self.queues.names.remove(&queue.record.key);
        if queue.stored {
            self.queues.unwritten.gone_queues.push(number);
        }
    }
}
