//! The changes of queues and messages that are not written yet.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual_core::change::{Changes, Row, RowKey};
use punctual_core::queue::{MessagePosition, QueueNumber};
use punctual_core::time::Elapsed;

use super::Queues;
use super::messages::{Mark, Stored};
use crate::deadline::LAZY_MAX;

/// The changes of queues that the next batch must carry.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// Changed messages; some may have been deleted since.
    pub(super) messages: Vec<i64>,
    /// Rows of deleted messages.
    pub(super) gone: Vec<(QueueNumber, MessagePosition)>,
    pub(super) queues: Vec<QueueNumber>,
    pub(super) gone_queues: Vec<QueueNumber>,
    /// Delivered messages that are not written yet, and when they were delivered (elapsed time).
    pub(super) delivered: VecDeque<(Elapsed, i64)>,
    /// Whether these must be written with the next batch.
    delivered_due: bool,
}

impl Queues {
    pub(crate) fn is_dirty(&self) -> bool {
        let unwritten = &self.unwritten;
        unwritten.delivered_due
            || !(unwritten.messages.is_empty()
                && unwritten.gone.is_empty()
                && unwritten.queues.is_empty()
                && unwritten.gone_queues.is_empty())
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        let unwritten = &self.unwritten;
        unwritten.messages.len() + unwritten.gone.len() + unwritten.queues.len()
    }

    /// When the oldest unwritten delivery was made.
    pub(in crate::queue) fn oldest_delivery(&mut self) -> Option<Elapsed> {
        self.skip_written();
        self.unwritten.delivered.front().map(|(at, _)| *at)
    }

    /// Has the unwritten deliveries written with the next batch, as far as they are old enough.
    pub(in crate::queue) fn write_deliveries(&mut self) {
        self.unwritten.delivered_due = true;
    }

    /// Has every delivery written with the next batch.
    pub(in crate::queue) fn write_all_deliveries(&mut self) {
        self.skip_written();
        let unwritten = &mut self.unwritten;
        unwritten.delivered_due = !unwritten.delivered.is_empty();
        for (at, _) in &mut unwritten.delivered {
            // Makes them old enough for any seal.
            *at = at.before(LAZY_MAX);
        }
    }

    /// Skips deliveries that are already written or whose message is gone: most were acknowledged.
    fn skip_written(&mut self) {
        while let Some((_, number)) = self.unwritten.delivered.front() {
            if self.held.get(number).is_some_and(|live| live.mark == Mark::Lazy) {
                return;
            }
            self.unwritten.delivered.pop_front();
        }
    }

    /// Marks due deliveries as dirty, also those that are only half a second old, so that they share one batch. Returns
    /// when the next one must be written.
    pub(in crate::queue) fn seal_deliveries(&mut self, now: Elapsed) -> Option<Elapsed> {
        let Unwritten { delivered, delivered_due, messages, .. } = &mut self.unwritten;
        if !std::mem::take(delivered_due) {
            return None;
        }
        while let Some((at, number)) = delivered.front().copied() {
            if at + LAZY_MAX / 2 > now {
                return Some(at + LAZY_MAX);
            }
            delivered.pop_front();
            if let Some(live) = self.held.get_mut(&number).filter(|live| live.mark == Mark::Lazy) {
                live.mark = Mark::Dirty;
                messages.push(number);
            }
        }
        None
    }

    /// Writes the changed messages; returns their numbers.
    pub(in crate::queue) fn seal_messages(&mut self, changes: &mut Changes) -> Vec<i64> {
        let written = std::mem::take(&mut self.unwritten.messages);
        for number in &written {
            self.seal_message(*number, changes);
        }
        written
    }

    fn seal_message(&mut self, number: i64, changes: &mut Changes) {
        let Some(live) = self.held.get_mut(&number) else { return };
        let (of, now) = (live.message.id.queue, Stored::of(&live.message));
        live.mark = Mark::Clean;
        let row = Row::Message(Arc::clone(&live.message));
        let before = std::mem::replace(&mut live.row, now);
        if let Some(queue) = self.all.get_mut(&of) {
            queue.record.queued += u64::from(now == Stored::Queued);
            queue.record.queued -= u64::from(before == Stored::Queued);
            queue.record.messages += u64::from(before == Stored::Nothing);
            queue.count_stored_unacked(before, now);
        }
        if before == Stored::Nothing {
            changes.insert(row);
        } else {
            changes.update(row);
        }
        if before != now {
            self.touch(of);
        }
    }

    /// Deletes the rows of removed messages and queues, and writes the changed queues. Returns the numbers of those.
    pub(in crate::queue) fn seal_queues(&mut self, changes: &mut Changes) -> Vec<QueueNumber> {
        for (queue, place) in std::mem::take(&mut self.unwritten.gone) {
            changes.delete(RowKey::Message(queue, place));
        }
        for number in std::mem::take(&mut self.unwritten.gone_queues) {
            changes.delete(RowKey::Queue(number));
        }
        let written = std::mem::take(&mut self.unwritten.queues);
        for number in &written {
            let Some(queue) = self.all.get_mut(number) else { continue };
            queue.dirty = false;
            let row = Row::Queue(queue.record.clone());
            if std::mem::replace(&mut queue.stored, true) {
                changes.update(row);
            } else {
                changes.insert(row);
            }
        }
        written
    }
}
