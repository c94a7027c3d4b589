//! Pages of a long queue, asked for when the messages in memory run low.

use std::sync::Arc;

use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{EndNotice, Message, MessagePosition, QueueNumber};

use super::{Mark, Stored};
use crate::Shard;
use crate::event::Context;
use crate::plan::TimerOwner;

impl Shard {
    /// The queue that needs a page of messages, the place after which it starts, and its size. After `Some`, the caller
    /// must call `backlog_page` or `backlog_failed`.
    pub fn ask_backlog(&mut self) -> Option<(QueueNumber, MessagePosition, usize)> {
        while let Some(number) = self.queues.hungry.pop_front() {
            let Some(queue) = self.queues.all.get(&number) else { continue };
            let wanted = queue.window.wants_page(self.queues.reach(queue));
            let Some(queue) = self.queues.all.get_mut(&number) else { continue };
            queue.hungry = false;
            let Some((after, limit)) = wanted else { continue };
            queue.window.page_is_asked();
            self.revive_messages(|message| message.id.queue == number && message.is_queued());
            return Some((number, after, limit));
        }
        None
    }

    /// Takes a page: at most `limit` messages that were queued when it was read. Memory wins over it.
    pub fn backlog_page(
        &mut self,
        of: QueueNumber,
        page: Vec<Arc<Message>>,
        limit: usize,
        cx: &mut Context<'_>,
    ) {
        let (count, bytes) = (page.len(), page.iter().map(|message| message.body.len()).sum());
        let last = page.last().map(|message| message.position());
        let goes_on = goes_on(count, bytes, limit) && !is_planted(Fault::PageIsTheLast);
        let end = last.filter(|_| goes_on);
        page.into_iter().for_each(|message| self.take_row(message));
        let Some(queue) = self.queues.all.get_mut(&of) else { return };
        for place in queue.window.page_came(end, count, bytes) {
            self.message_is_far(place.number);
        }
        self.serve(of, cx);
        self.feed(of);
    }

    /// The page could not be read: asks for it again.
    pub fn backlog_failed(&mut self, of: QueueNumber) {
        if let Some(queue) = self.queues.all.get_mut(&of) {
            queue.window.page_failed();
        }
        self.feed(of);
    }

    /// Marks a queue that needs a page. A queue without consumers needs none.
    pub(super) fn feed(&mut self, of: QueueNumber) {
        let Some(queue) = self.queues.all.get(&of) else { return };
        let is_wanted = queue.taken_at.is_some() && !queue.hungry;
        if is_wanted && queue.window.wants_page(self.queues.reach(queue)).is_some() {
            self.queues.hungry.push_back(of);
            if let Some(queue) = self.queues.all.get_mut(&of) {
                queue.hungry = true;
            }
        }
    }

    /// Takes the messages of a page of timers.
    pub(crate) fn page_of_messages(&mut self, page: Vec<Arc<Message>>, cx: &mut Context<'_>) {
        for message in page {
            match EndNotice::of(&message) {
                Some(notice) => self.take_end_notice(notice, cx),
                None => self.take_row(message),
            }
        }
    }

    /// Takes a stored message, unless memory or a pin has it.
    fn take_row(&mut self, message: Arc<Message>) {
        let number = message.id.number;
        if !self.queues.held.contains_key(&number) && !self.pins.messages.contains_key(&number) {
            let row = Stored::of(&message);
            self.hold(message, row, Mark::Clean);
        }
    }

    /// Puts messages back into memory that left it and may not be committed when a page is read.
    pub(crate) fn revive_messages(&mut self, is_wanted: impl Fn(&Message) -> bool) {
        let held = &self.queues.held;
        let pinned = self.pins.messages.iter().filter(|(number, _)| !held.contains_key(number));
        let pinned = pinned.filter_map(|(_, pin)| pin.row.clone()).filter(|message| is_wanted(message));
        let revived: Vec<Arc<Message>> = pinned.collect();
        for message in revived {
            let row = Stored::of(&message);
            self.hold(message, row, Mark::Clean);
        }
    }

    /// Arms the messages in memory whose timer is now before the horizon of the plan.
    pub(crate) fn arm_messages(&mut self) {
        for (number, live) in &self.queues.held {
            let wake = live.message.wake_at();
            if self.plan.is_near(wake, TimerOwner::Message(*number)) {
                self.plan.arm(Some(wake), TimerOwner::Message(*number));
            }
        }
    }
}

/// Whether more messages may follow a page: the store ends a page early when its bodies are large.
fn goes_on(count: usize, bytes: usize, limit: usize) -> bool {
    count >= limit || bytes >= PAGE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_page_is_the_last_unless_it_is_heavy() {
        assert!(goes_on(100, 1, 100));
        assert!(!goes_on(99, 1, 100));
        assert!(!goes_on(7, PAGE_BYTES_MAX - 1, 100));
        assert!(goes_on(8, PAGE_BYTES_MAX, 100));
    }
}
