//! Pages of a long queue, asked for when the messages in memory run low.

use std::sync::Arc;

use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{EndNotice, Message, MessagePosition, QueueNumber};

use crate::Shard;
use crate::event::Context;
use crate::plan::TimerOwner;

impl Shard {
    /// The queue that needs a page of messages, the place after which it starts, and its size. After `Some`, the caller
    /// must call `message_page` or `message_page_failed`.
    pub fn ask_message_page(&mut self) -> Option<(QueueNumber, MessagePosition, usize)> {
        let (number, after, limit) = self.queues.ask_page()?;
        self.revive_messages(|message| message.id.queue == number && message.is_queued());
        Some((number, after, limit))
    }

    /// Takes a page: at most `limit` messages that were queued when it was read. Memory wins over it.
    pub fn message_page(
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
        let Some(queue) = self.queues.get_mut(of) else { return };
        for place in queue.window.page_came(end, count, bytes) {
            self.message_is_far(place.number);
        }
        self.serve(of, cx);
        self.mind_queues(cx);
        self.queues.feed(of);
    }

    /// The page could not be read: asks for it again.
    pub fn message_page_failed(&mut self, of: QueueNumber) {
        if let Some(queue) = self.queues.get_mut(of) {
            queue.window.page_failed();
        }
        self.queues.feed(of);
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
        if !self.queues.is_held(number) && !self.pins.messages.contains_key(&number) {
            self.hold(message);
        }
    }

    /// Puts messages back into memory that left it and may not be committed when a page is read.
    pub(crate) fn revive_messages(&mut self, is_wanted: impl Fn(&Message) -> bool) {
        let pinned = self.pins.messages.iter().filter(|(number, _)| !self.queues.is_held(**number));
        let pinned = pinned.filter_map(|(_, pin)| pin.row.clone()).filter(|message| is_wanted(message));
        let revived: Vec<Arc<Message>> = pinned.collect();
        revived.into_iter().for_each(|message| self.hold(message));
    }

    /// Arms the messages in memory whose timer is now before the horizon of the plan.
    pub(crate) fn arm_messages(&mut self) {
        for message in self.queues.messages() {
            let (wake, owner) = (message.wake_at(), TimerOwner::Message(message.id.number));
            if self.plan.is_near(wake, owner) {
                self.plan.arm(Some(wake), owner);
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
